"""kvsim.refined_budgets: a model's budget over groups of layers, by what it loses when it runs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ...closed_loop import evaluate
from ...closed_loop.asked import loaded
from ...closed_loop.texts import input_texts
from ...errors import UsageError
from ...files.head_tables import RATIOS
from ...trace import Trace
from ...verbs.options import listed
from ..curves import PARTS
from ..hull import parts_by_gain
from .groups import Groups, table_of
from .measured import Evaluate, Tables, checked_shares, curves_of, measured

_OPTIONS = (
    "tokenizer names mode eviction_interval prompt_length trace also gradient_samples seed "
    "progress force scratch"
).split()


class Refined(NamedTuple):
    """A table of budgets, and what it comes from."""

    budgets: np.ndarray
    groups: pd.DataFrame
    totals: pd.DataFrame


def refined_budgets(
    model: Any,
    texts: object,
    policy: str | type,
    table: str | os.PathLike[str] | np.ndarray,
    budgets: str | float | Sequence[str | float] = (),
    *,
    groups: int = 6,
    shares: Sequence[float] = (0.02, 0.05, 0.1, 0.2, 0.4),
    output: str | Path | None = None,
    **options: Any,
) -> Refined:
    """Divides a model's budget over groups of layers by the KL that each costs the running model.

    A replay does not know what later layers make of an error. Here the kept sets of replays are
    imposed on one group of layers while the others keep everything, at a few shares.

    Parameters
    ----------
    model : transformers.PreTrainedModel or path
        As for kvsim.evaluate.
    texts : str, dict, path, or sequence of these
        As for kvsim.evaluate.
    policy : str or class
        A spec without @, or a class.
    table : path or array_like, shape (99, layers, kv_heads)
        Of kvsim.head_budgets for this policy, or its file .npy.
    budgets : str, int, float, or sequence of these, optional
        At which `table` and the refined table are measured in the end; none: they are not.
    groups : int, default 6
        Into so many, as even as can be, the layers are parted, in their order.
    shares : sequence of float, default (0.02, 0.05, 0.1, 0.2, 0.4)
        Of its text that a group keeps when it alone evicts. None gets less than the smallest;
        ratios that do not allow it are split evenly over groups.
    output : path, optional
        A result file of kvsim.evaluate; the same call goes on where it was interrupted. The files
        for @file are kept in the folder OUTPUT.tables. None: nothing is kept.
    **options : Any
        Options tokenizer, names, mode, eviction_interval, prompt_length, trace, also,
        gradient_samples, seed, progress, force and scratch of kvsim.evaluate. Without a trace each
        text is recorded again for each share.

    Returns
    -------
    Refined
        Named tuple of `budgets`, float32, shape (99, layers, kv_heads), as of head_budgets, all
        ratios from the same curves; `groups`, a frame of `group`, `first_layer`, `last_layer`,
        `share` and `kl`, nats per token, means over texts; and `totals`, a frame of `table` (given,
        refined), `budget_request`, `kl_sum`, the groups' losses added up, NaN below what was
        measured, and `kl_mean`, what all of them together cost.

    Raises
    ------
    UsageError
        For what contradicts itself; else as `kvsim.evaluate`.
    DataError
        For a file that is no table; else as `kvsim.evaluate`.
    RecordError, KvsimError, KeyboardInterrupt
        As `kvsim.evaluate`.

    Notes
    -----
    The KL of a group as a function of its share, its convex minorant, and the largest gain first
    give the groups' parts of the budget, as head_budgets those of heads from a sweep. Within a
    group the split is that of the table where the group has this share.

    Examples
    --------
    >>> table = kvsim.head_budgets(losses, metric="predicted_kl", trace="trace.h5")
    >>> refined = kvsim.refined_budgets(model, texts, "h2o", table, "20%", trace="trace.h5")
    >>> np.save("refined.npy", refined.budgets)
    """
    spec = _spec(policy)
    given = table_of(table)
    parts = Groups(given, groups)
    numbers = checked_shares(shares)
    if unknown := sorted(options.keys() - {*_OPTIONS}):
        raise UsageError(f"{unknown[0]}: expected options {', '.join(_OPTIONS)}")
    has_text = any(isinstance(text.text, str) for text in input_texts(texts))
    model, options["tokenizer"] = loaded(model, options.get("tokenizer"), has_text)
    if isinstance(options.get("trace"), (str, Path)):
        options["trace"] = Trace(options["trace"])
    run = partial(evaluate, model, texts, output=output, **options)
    aside = tempfile.TemporaryDirectory(prefix="kvsim-") if output is None else None
    with aside or nullcontext(f"{output}.tables") as folder:
        tables = Tables(Path(folder))
        found = measured(parts, numbers, spec, tables, run)
        curves = curves_of(found, parts)
        refined = parts.table(shares_of_groups(curves, parts))
        totals = []
        if listed(budgets):
            for name, each in {"given": given, "refined": refined}.items():
                totals.append(_total(name, each, parts, curves, spec, budgets, tables, run))
    columns = ["table", "budget_request", "kl_sum", "kl_mean"]
    frame = pd.concat(totals) if totals else pd.DataFrame(columns=columns)
    return Refined(refined, _summary(found, parts), frame[columns].reset_index(drop=True))


def _spec(policy: str | type) -> str:
    specs = listed(policy)
    if len(specs) != 1 or not specs[0] or "@" in specs[0] or ";" in specs[0]:
        found = ", ".join(map(repr, specs)) or "none"
        raise UsageError(f"policy: expected one policy without @, found {found}")
    return specs[0]


def shares_of_groups(curves: np.ndarray, groups: Groups) -> np.ndarray:
    """What each group keeps at each ratio: [RATIOS, groups].

    A group stands there as often as it has heads, each with its part of the loss.
    """
    heads = [group.heads for group in groups]
    least = int(np.isnan(curves).sum(axis=1).max())
    each = np.repeat(curves / np.array(heads)[:, None], heads, axis=0)
    ratios = np.arange(1, RATIOS + 1)
    kept = parts_by_gain(each, least, (100 - ratios) * PARTS // 100 * len(each)) / PARTS
    starts = np.cumsum([0, *heads[:-1]])
    return np.add.reduceat(kept, starts, axis=1) / heads


def _total(
    name: str, table: np.ndarray, groups: Groups, curves: np.ndarray, policy: str,
    budgets: object, tables: Tables, run: Evaluate,
) -> pd.DataFrame:  # fmt: skip
    """What a table costs, as the groups' sum and in the model, mean over texts, by budget."""
    rows = run([tables.spec(policy, name, table)], budgets)
    length = rows.steps.where(~rows["mode"].str.startswith("prefill"), rows.prompt_length)
    ratio = (1 - rows.budget / length).groupby(rows.budget_request).mean()
    sums = {}
    for request, removed in ratio.items():
        row = table[int(np.clip(round(removed * 100), 1, RATIOS)) - 1]
        places = np.round(groups.shares_in(row) * PARTS).astype(int)
        sums[request] = curves[np.arange(len(curves)), places].sum()
    means = rows.groupby("budget_request", sort=False).kl_mean.mean().reset_index()
    return means.assign(table=name, kl_sum=means.budget_request.map(sums))


def _summary(found: pd.DataFrame, groups: Groups) -> pd.DataFrame:
    means = found.groupby(["group", "asked"])[["share", "kl"]].mean().reset_index()
    layers = [group.layers for group in groups]
    means["first_layer"] = means.group.map(lambda index: int(layers[index][0]))
    means["last_layer"] = means.group.map(lambda index: int(layers[index][-1]))
    return means[["group", "first_layer", "last_layer", "share", "kl"]]
