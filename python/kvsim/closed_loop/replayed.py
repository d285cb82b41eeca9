"""The open-loop replays of a text: which configurations there are, and what they keep."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _engine
from ..errors import RecordError
from ..results.frames import frame_of
from ..verbs.options import engine_options
from .kept_attention import Kept, Selected
from .loops import How, Job, Plan
from .selected_pages import choices

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from ..trace import Trace
    from ..verbs.options import Options

# By policy and budget in tokens: what each layer keeps.
KeptSets = dict[tuple[str, int], dict[int, Kept]]

MOST_NUMBERS = 1 << 28  # of kept sets in memory: 1 GiB of int32


def plans_of(
    specs: list[str],
    refused: set[str],
    budgets: list[str],
    job: Job,
    how: How,
    vectors: list[tuple[int, int, int, int]],
) -> list[Plan]:
    """The configurations of a text, without refused ones. They are known before any replay.

    Of budgets that come to as many tokens of a policy, the first counts. Sizes need the `vectors`
    of the layers (Asked.vectors).
    """
    protocol = how.protocol
    plans = []
    for spec in _engine.specs(specs, how.allocate, protocol=protocol):
        if spec["text"] in refused:
            continue
        amounts: dict[int, str] = {}
        for written, tokens in _engine.budgets_of(
            budgets, protocol, len(job.ids), job.prompt_length, spec["text"], vectors
        ):
            amounts.setdefault(tokens, written)
        plans += [
            Plan(
                policy=spec["text"],
                policy_code=spec["policy_code"],
                label=spec["label"],
                budget=tokens,
                budget_request=written,
                mode=protocol.name,
            )
            for tokens, written in amounts.items()
        ]
    return plans


def with_rows(plans: list[Plan], replayed: pd.DataFrame) -> dict[Plan, pd.DataFrame]:
    """The configurations with the rows of their replays.

    Those without any are left out: `all` and `oracles` do not stand for what the trace does not
    have enough for.
    """
    rows = dict(iter(replayed.groupby(["policy", "budget"], sort=False)))
    found = {plan: rows.get((plan.policy, plan.budget)) for plan in plans}
    return {plan: of_plan for plan, of_plan in found.items() if of_plan is not None}


def sweep_text(
    trace: Trace,
    specs: list[str],
    budgets: list[str],
    options: Options,
    output: str | Path | None,
    force: bool,
    command: str,
    progress: Callable[[int, int], object] | None,
    kept: list[str],
) -> tuple[pd.DataFrame, list[str], KeptSets]:
    """kvsim.sweep of one text: its frame, notes, and what the replays of the policies `kept` that
    were made keep."""
    where = None if output is None else os.fspath(output)
    columns, notes, sets = _engine.sweep(
        [trace._opened], specs, budgets, engine_options(options), where, force, command, progress,
        kept,
    )  # fmt: skip
    return frame_of(columns), notes, _by_layer(sets)


def batches(trace: Trace, job: Job, plans: list[Plan], how: How) -> list[list[Plan]]:
    """The plans in parts of whole policies, whose kept sets fit in memory at once."""
    units = sum(len(layer.kv_heads) for layer in _sequence(trace, job).layers)
    of_policy: dict[str, list[Plan]] = {}
    for plan in plans:
        of_policy.setdefault(plan.policy, []).append(plan)
    found: list[list[Plan]] = []
    numbers = 0
    for policy, at_budgets in of_policy.items():
        # A policy that selects has up to its budget per step, a selector a page in addition, which
        # is no larger.
        most = max(plan.budget for plan in at_budgets)
        if at_budgets[0].selects_pages:
            width = 2 * most
        else:
            width = 1 + (most if _selects(policy, how) else 0)
        more = len(at_budgets) * units * len(job.ids) * width
        if not found or numbers + more > MOST_NUMBERS:
            found.append([])
            numbers = 0
        found[-1] += at_budgets
        numbers += more
    return found


def kept_sets(
    trace: Trace, job: Job, plans: list[Plan], how: How, known: KeptSets
) -> Iterator[dict[Plan, dict[int, Kept]]]:
    """What each plan keeps, per layer, batch by batch. Takes out of `known` what is there, and
    replays the others."""
    for batch in batches(trace, job, plans, how):
        found = {plan: known.pop((plan.policy, plan.budget), None) for plan in batch}
        if lacking := [plan for plan, kept in found.items() if kept is None]:
            if evicting := [plan for plan in lacking if not plan.selects_pages]:
                replayed = _replay(trace, job, evicting, how)
                found |= {plan: replayed[plan.policy, plan.budget] for plan in evicting}
            if selecting := [plan for plan in lacking if plan.selects_pages]:
                found |= choices(trace, job, selecting, how)
        yield found


def _replay(trace: Trace, job: Job, plans: list[Plan], how: How) -> KeptSets:
    budgets: dict[str, list[str]] = {}
    for plan in plans:
        budgets.setdefault(plan.policy, []).append(str(plan.budget))
    policies: dict[tuple[str, ...], list[str]] = {}  # of a size they have budgets of their own
    for policy, of_policy in budgets.items():
        policies.setdefault(tuple(dict.fromkeys(of_policy)), []).append(policy)
    options = {**how.options(), "sequences": [job.name]}
    found: KeptSets = {}
    for amounts, specs in policies.items():
        columns, *kept, _ = _engine.schedules([trace._opened], specs, list(amounts), options, None)
        keys = frame_of(columns)[["policy", "budget", "layer", "kv_head"]].itertuples(index=False)
        found |= _by_layer((*key, *of_key) for key, *of_key in zip(keys, *kept, strict=True))
    return found


def _by_layer(sets: Iterable[tuple[Any, ...]]) -> KeptSets:
    """From the engine's list of policy, budget, layer, KV head, evicted_after, what is selected."""
    found: dict[tuple[str, int], dict[int, dict[int, Any]]] = {}
    for policy, budget, layer, head, evicted_after, selected in sets:
        heads = found.setdefault((policy, budget), {}).setdefault(layer, {})
        heads[head] = evicted_after if selected is None else Selected(*selected)
    return {
        of: {layer: _layer(heads) for layer, heads in layers.items()}
        for of, layers in found.items()
    }


def _layer(heads: dict[int, Any]) -> Kept:
    rows = [heads[head] for head in sorted(heads)]
    return rows if isinstance(rows[0], Selected) else np.stack(rows)


def _selects(policy: str, how: How) -> bool:
    return bool(_engine.specs(policy, how.allocate)[0]["selects"])


def _sequence(trace: Trace, job: Job):
    found = next((each for each in trace.sequences if each.name == job.name), None)
    if found is None:
        raise RecordError(f"the trace has no sequence {job.name}")
    return found
