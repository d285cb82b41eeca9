"""The open-loop replays of a text: which configurations there are, and what they keep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from .. import _engine
from ..errors import RecordError
from ..results.frames import frame_of
from .kept_attention import Kept, Selected
from .loops import How, Job, Plan

if TYPE_CHECKING:
    import pandas as pd

    from ..trace import Trace

MOST_NUMBERS = 1 << 28  # of kept sets in memory: 1 GiB of int32


def plans_of(
    specs: list[str], refused: set[str], budgets: list[str], job: Job, how: How
) -> list[Plan]:
    """The configurations of a text, without refused ones. They are known before any replay.

    Of budgets that come to as many tokens, the first counts.
    """
    amounts: dict[int, str] = {}
    protocol = how.protocol
    for written, tokens in _engine.budgets_of(budgets, protocol, len(job.ids), job.prompt_length):
        amounts.setdefault(tokens, written)
    return [
        Plan(
            policy=spec["text"],
            policy_code=spec["policy_code"],
            label=spec["label"],
            budget=tokens,
            budget_request=written,
            mode=protocol.name,
        )
        for spec in _engine.specs(specs, how.allocate, protocol=protocol)
        if spec["text"] not in refused
        for tokens, written in amounts.items()
    ]


def with_rows(plans: list[Plan], replayed: pd.DataFrame) -> dict[Plan, pd.DataFrame]:
    """The configurations with the rows of their replays.

    Those without any are left out: `all` and `oracles` do not stand for what the trace does not
    have enough for.
    """
    rows = dict(iter(replayed.groupby(["policy", "budget"], sort=False)))
    found = {plan: rows.get((plan.policy, plan.budget)) for plan in plans}
    return {plan: of_plan for plan, of_plan in found.items() if of_plan is not None}


def kept_sets(
    trace: Trace, job: Job, plans: list[Plan], how: How
) -> Iterator[dict[Plan, dict[int, Kept]]]:
    """What each plan keeps, per layer: of as many policies at once as fit in memory."""
    units = sum(len(layer.kv_heads) for layer in _sequence(trace, job).layers)
    of_policy: dict[str, list[Plan]] = {}
    for plan in plans:
        of_policy.setdefault(plan.policy, []).append(plan)
    batch: list[Plan] = []
    numbers = 0
    for policy, at_budgets in of_policy.items():
        # A policy that selects has up to its budget per step.
        width = 1 + (max(plan.budget for plan in at_budgets) if _selects(policy, how) else 0)
        more = len(at_budgets) * units * len(job.ids) * width
        if batch and numbers + more > MOST_NUMBERS:
            yield _replay(trace, job, batch, how)
            batch, numbers = [], 0
        batch += at_budgets
        numbers += more
    if batch:
        yield _replay(trace, job, batch, how)


def _replay(trace: Trace, job: Job, plans: list[Plan], how: How) -> dict[Plan, dict[int, Kept]]:
    policies = list(dict.fromkeys(plan.policy for plan in plans))
    budgets = list(dict.fromkeys(str(plan.budget) for plan in plans))
    options = {**how.options(), "sequences": [job.name]}
    columns, evicted_after, selected, _ = _engine.schedules(
        [trace._opened], policies, budgets, options, None
    )
    found: dict[tuple[str, int], dict[int, dict[int, Kept]]] = {}
    keys = frame_of(columns)[["policy", "budget", "layer", "kv_head"]].itertuples(index=False)
    for (policy, budget, layer, head), evicted, chosen in zip(
        keys, evicted_after, selected, strict=True
    ):
        heads = found.setdefault((policy, budget), {}).setdefault(layer, {})
        heads[head] = evicted if chosen is None else Selected(*chosen)
    return {
        plan: {layer: _layer(heads) for layer, heads in found[plan.policy, plan.budget].items()}
        for plan in plans
    }


def _layer(heads: dict[int, Kept]) -> Kept:
    rows = [heads[head] for head in sorted(heads)]
    return rows if isinstance(rows[0], Selected) else np.stack(rows)


def _selects(policy: str, how: How) -> bool:
    return bool(_engine.specs(policy, how.allocate)[0]["selects"])


def _sequence(trace: Trace, job: Job):
    found = next((each for each in trace.sequences if each.name == job.name), None)
    if found is None:
        raise RecordError(f"the trace has no sequence {job.name}")
    return found
