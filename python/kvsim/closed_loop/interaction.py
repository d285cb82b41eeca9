"""Layer by layer: what each costs if it alone evicts, and what the loops keep in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from ..trace import Trace
from ..verbs.options import protocol_from
from ..verbs.sweep import sweep
from . import imposed
from .asked import prepare
from .loops import How, Plan
from .overlap import overlap_of_layer
from .replayed import kept_sets, with_rows
from .scoring import Scorer
from .work import most_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from .. import _engine
    from .kept_attention import Kept
    from .loops import Job

_KEY = ["sequence", "policy", "budget", "budget_request", "mode", "layer"]


def layer_interaction(
    model: Any,
    texts: object,
    policies: str | type | Sequence[str | type],
    budgets: str | float | Sequence[str | float],
    **options: Any,
) -> pd.DataFrame:
    """The KL of each layer evicted alone, their sum, and that of all layers evicted together.

    Parameters
    ----------
    model : transformers.PreTrainedModel or path
        As for kvsim.evaluate.
    texts : str, sequence of int, dict, path, or list of these
        As for kvsim.evaluate.
    policies : str, class, or sequence of these
        As for kvsim.sweep; of `all` and `oracles` it takes what can be imposed.
    budgets : str, int, float, or sequence of these
        As for kvsim.sweep.
    **options : Any
        Options tokenizer, names, mode, eviction_interval, prompt_length, trace, seed and allocate
        of kvsim.evaluate.

    Returns
    -------
    pandas.DataFrame
        One row per text, policy, budget and layer: sequence, policy, budget (tokens),
        budget_request, mode, layer, and in nats per token over the measured steps `kl_alone`,
        `kl_sum` and `kl_joint`, of which the last two are the same in all layers.

    Raises
    ------
    UsageError, RecordError, DataError, KvsimError, KeyboardInterrupt
        As kvsim.evaluate.

    Warns
    -----
    KvsimWarning
        As kvsim.evaluate.

    Notes
    -----
    The kept sets of a replay are imposed on one layer while the others keep every token, then on
    all: L + 1 forward passes for L layers. Where `kl_joint` is below `kl_sum`, layers make up for
    each other, or lose the same thing; where it is above, damage adds to damage.

    Examples
    --------
    >>> kvsim.layer_interaction(model, text, "h2o", "20%")[["layer", "kl_alone", "kl_joint"]]
    """
    rows = []
    for model_, job, trace, full, plans, how in _texts(
        model, texts, policies, budgets, "imposed", protocol_from(options), **options
    ):
        scorer = Scorer(job, full(), how.first_step(job))
        for sets in kept_sets(trace, job, plans, how, {}):
            for plan, kept in sets.items():
                joint, alone = _divergences(model_, job, kept, scorer)
                for layer, kl in alone.items():
                    numbers = {"kl_alone": kl, "kl_sum": sum(alone.values()), "kl_joint": joint}
                    rows.append(_key(job, plan, layer) | numbers)
    return pd.DataFrame(rows, columns=[*_KEY, "kl_alone", "kl_sum", "kl_joint"])


def kept_overlap_by_layer(
    model: Any,
    texts: object,
    policies: str | type | Sequence[str | type],
    budgets: str | float | Sequence[str | float],
    **options: Any,
) -> pd.DataFrame:
    """How much the adaptive loop and the replay keep in common in each layer.

    Parameters
    ----------
    model : transformers.PreTrainedModel or path
        As for kvsim.evaluate.
    texts : str, sequence of int, dict, path, or list of these
        As for kvsim.evaluate.
    policies : str, class, or sequence of these
        As for kvsim.sweep; of `all` and `oracles` it takes what the adaptive loop runs.
    budgets : str, int, float, or sequence of these
        As for kvsim.sweep.
    **options : Any
        As for kvsim.layer_interaction.

    Returns
    -------
    pandas.DataFrame
        One row per text, policy, budget and layer: sequence, policy, budget (tokens),
        budget_request, mode, layer, and `kept_overlap`, the mean over measured steps and the
        layer's KV heads of ``|kept and kept'| / |kept or kept'|``. Estimators, which keep no sets
        of tokens, have no rows.

    Raises
    ------
    UsageError, RecordError, DataError, KvsimError, KeyboardInterrupt
        As kvsim.evaluate.

    Warns
    -----
    KvsimWarning
        As kvsim.evaluate.

    Notes
    -----
    Layer 0 is 1 for every policy that decides per head: it sees the same queries and keys in both
    loops.

    Examples
    --------
    >>> found = kvsim.kept_overlap_by_layer(model, text, "h2o", "20%")
    >>> found.groupby("layer").kept_overlap.mean()
    """
    from . import adaptive

    rows = []
    for model_, job, trace, _, plans, how in _texts(
        model, texts, policies, budgets, "adaptive", protocol_from(options), **options
    ):
        first, memory = how.first_step(job), most_bytes(model_.device)
        for sets in kept_sets(trace, job, plans, how, {}):
            for plan, outcome in adaptive.run(model_, job, list(sets), how, memory, trace):
                for layer, kept in (outcome.kept or {}).items():
                    share = overlap_of_layer(sets[plan][layer], kept, first)
                    rows.append(_key(job, plan, layer) | {"kept_overlap": share})
    return pd.DataFrame(rows, columns=[*_KEY, "kept_overlap"])


def _key(job: Job, plan: Plan, layer: int) -> dict[str, object]:
    values = (job.name, plan.policy, plan.budget, plan.budget_request, plan.mode, layer)
    return dict(zip(_KEY, values))


def _texts(
    model: Any,
    texts: object,
    policies: object,
    budgets: object,
    loop: str,
    protocol: _engine.Protocol,
    *,
    tokenizer: Any = None,
    names: Sequence[str] | None = None,
    prompt_length: int | None = None,
    trace: str | Path | Trace | None = None,
    seed: int = 0,
    allocate: str = "uniform",
) -> Iterator[tuple[Any, Job, Trace, Callable[[], torch.Tensor], list[Plan], How]]:
    """Of each text the model, the text, its trace, its logits and its configurations."""
    how = How(protocol, seed, allocate)
    asked = prepare(
        model, texts, policies, budgets, loop, how,
        tokenizer=tokenizer, names=names, prompt_length=prompt_length, trace=trace,
    )  # fmt: skip
    for job in asked.jobs:
        with asked.trace_of(job) as (found, full), asked.shown(job, loop):
            specs, amounts, options = asked.sweep_of(job)
            replayed = sweep(found, specs, amounts, progress=False, **options)
            yield asked.model, job, found, full, list(with_rows(asked.plans(job), replayed)), how


def _divergences(
    model: Any, job: Job, kept: dict[int, Kept], scorer: Scorer
) -> tuple[float, dict[int, float]]:
    """The KL with all layers evicted, and that of each layer evicted alone."""
    n = len(job.ids)
    ids = torch.from_numpy(job.ids).long()[None].to(model.device)
    whole = {layer: np.full((len(each), n), n, np.int32) for layer, each in kept.items()}

    def kl(sets: dict[int, Kept]) -> float:
        logits = imposed.forward(model, ids, [sets], most_bytes(model.device))
        return scorer.score(logits[0]).kl_mean

    return kl(kept), {layer: kl(whole | {layer: kept[layer]}) for layer in sorted(kept)}
