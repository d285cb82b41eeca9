"""Predictions step by step: by the kind of the predicted token, and as the lists of a table."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..errors import DataError
from ..results import load

if TYPE_CHECKING:
    from ..trace import Span
    from .both_loops import Tables
    from .scoring import Steps

TEXT = "text"  # the kind of tokens that no span holds
ROW_KEY = ("model_id", "sequence", "policy", "budget", "mode", "loop", "seed")
LISTS = ("kl", "nll_full", "nll")


def kinds_of(spans: Iterable[Span], tokens: int) -> dict[str, np.ndarray]:
    """By kind, whether each step of a text but the last one predicts a token of it: bool [n - 1].

    The kinds of a token are the labels of the spans that hold it, or else TEXT.
    """
    held = {TEXT: np.zeros(tokens, bool)}
    for start, end, label in spans:
        held.setdefault(label, np.zeros(tokens, bool))[start:end] = True
    held[TEXT] |= ~np.any([*held.values()], axis=0)
    return {kind: of_kind[1:] for kind, of_kind in held.items()}


def kind_rows(steps: Steps, spans: Iterable[Span]) -> list[dict[str, object]]:
    """Rows of the table `closed_loop_kind` but for their key: of each kind that is predicted."""
    rows = []
    for kind, predicted in kinds_of(spans, steps.first + len(steps.kl)).items():
        at = np.flatnonzero(predicted[steps.first :])
        if not len(at):
            continue
        nll_full, nll = steps.nll_full[at].mean(), steps.nll[at].mean()
        rows.append({
            "kind": kind, "tokens": len(at), "nll_full": nll_full, "nll": nll,
            "delta_nll": nll - nll_full, "kl_mean": steps.kl[at].mean(),
            "top1_agreement": steps.agrees[at].mean(),
            "tokens_right_full": int(steps.right_full[at].sum()),
            "tokens_right": int(steps.right[at].sum()),
        })  # fmt: skip
    return rows


def step_row(steps: Steps, spans: Iterable[Span]) -> dict[str, object]:
    """The row of the table `closed_loop_step` but for its key."""
    lists = {name: _json_of(getattr(steps, name), len(steps.kl)) for name in LISTS}
    return {"first_step": steps.first, **lists, "spans": json.dumps([[*span] for span in spans])}


def _json_of(values: np.ndarray, steps: int) -> str:
    """The list of all steps: the last one of a text has no next token, and no NLL."""
    texts = [f"{value:.5g}" for value in values.tolist()]
    return f"[{','.join(texts + ['null'] * (steps - len(texts)))}]"


def closed_loop_steps(results: str | Path | Tables) -> pd.DataFrame:
    """KL and NLL of every measured step that `kvsim.evaluate(per_step=True)` has kept.

    Parameters
    ----------
    results : path, Results, or dict of str to pandas.DataFrame
        A result file, what `kvsim.load` gives, or a dict of its tables.

    Returns
    -------
    pandas.DataFrame
        One row per row of the table `closed_loop_step` and measured step: its key (model_id,
        sequence, policy, budget, mode, loop, seed); `step`; `kind`, the label of the spans that
        hold the predicted token, step + 1, or `text`; `kl`, `nll_full` and `nll` in nats. The
        labels of a token in spans of several are joined by "+". The last step of a text has no next
        token: its kind and its NLL are missing.

    Raises
    ------
    DataError
        Where there are no steps, or their lists are not sound.
    ResultsError
        As `kvsim.load`.

    Examples
    --------
    >>> steps = kvsim.closed_loop_steps("results.sqlite")
    >>> steps.groupby(["policy", "kind"]).kl.mean()
    """
    tables = load(results) if isinstance(results, (str, Path)) else results
    where = getattr(tables, "path", "the tables")
    if "closed_loop_step" not in tables or tables["closed_loop_step"].empty:
        raise DataError(
            f"{where}: expected rows of closed_loop_step, found none. What writes them: "
            "python -m kvsim.evaluate MODEL --text FILE --policies SPECS --budgets LIST --per-step "
            f"-o {where if isinstance(where, Path) else 'RESULTS.sqlite'}"
        )
    kinds: dict[tuple[str, int], np.ndarray] = {}  # texts have many rows
    parts = []
    for row in tables["closed_loop_step"].to_dict("records"):
        values = {name: _numbers(where, row, name) for name in LISTS}
        steps = len(values["kl"])
        if any(len(found) != steps for found in values.values()):
            raise DataError(f"{_row(where, row)}: expected three lists of one length")
        text = (row["spans"], row["first_step"] + steps)
        if text not in kinds:
            kinds[text] = _kind_names(_parsed(where, row, "spans"), text[1])
        numbers = np.arange(row["first_step"], text[1])
        key = {name: row[name] for name in ROW_KEY}
        parts.append(pd.DataFrame({**key, "step": numbers, "kind": kinds[text][numbers], **values}))
    return pd.concat(parts, ignore_index=True)


def _kind_names(spans: list[Any], tokens: int) -> np.ndarray:
    """What each step predicts, in words; None of the last one."""
    names = np.full(tokens, None, object)
    for kind, predicted in sorted(kinds_of(spans, tokens).items()):
        for step in np.flatnonzero(predicted):
            names[step] = kind if names[step] is None else f"{names[step]}+{kind}"
    return names


def _numbers(where: object, row: dict[str, Any], name: str) -> np.ndarray:
    try:
        return np.array(_parsed(where, row, name), float)
    except (TypeError, ValueError) as error:
        raise DataError(f"{_row(where, row)}: {name}: expected numbers, found {error}") from error


def _parsed(where: object, row: dict[str, Any], name: str) -> Any:
    try:
        return json.loads(row[name])
    except (TypeError, ValueError) as error:
        raise DataError(f"{_row(where, row)}: {name}: expected JSON, found {error}") from error


def _row(where: object, row: dict[str, Any]) -> str:
    key = ", ".join(f"{name}={row[name]}" for name in ROW_KEY)
    return f"{where}: table closed_loop_step, {key}"
