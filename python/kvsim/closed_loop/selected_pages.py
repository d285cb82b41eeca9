"""Selectors of kvsim.fetch in the imposed loop: what each step attends to, of a whole cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from .. import _engine
from ..errors import UsageError
from ..policy import selector_name
from .kept_attention import Selected
from .loops import How, Job, Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..trace import Trace


def selectors(
    select: str | type | Sequence[str | type] | None, loop: str, how: How
) -> list[dict[str, object]]:
    """What the engine says of each. Raises UsageError for one that the loop cannot run."""
    several = [select] if isinstance(select, (str, type)) else list(select or ())
    if not several:
        return []
    names = [selector_name(each) if isinstance(each, type) else each for each in several]
    found = _engine.selector_specs(names)
    if loop != "imposed":
        raise UsageError(f"select: loop={loop} runs no selectors; use loop=imposed")
    if how.protocol.name != how.protocol.mode:
        raise UsageError(
            "select: pages are a parameter of each selector, which evicts nothing; leave out page "
            "and eviction_interval, or evaluate policies in another call"
        )
    for flags in found:
        if flags["samples"]:
            raise UsageError(
                f"select: loop=imposed does not run {flags['text']}: what it estimates from a "
                "sample is no set of tokens that could be imposed; leave it out"
            )
    return found


def plans_of(asked: list[dict[str, object]], job: Job, how: How) -> list[Plan]:
    """One for each selector. Its budget is the most older tokens that a step attends to, those of
    the whole text if it has no fixed number."""
    return [
        Plan(
            policy=flags["text"],
            policy_code=flags["policy_code"],
            label=None,
            budget=flags["attended"] or len(job.ids),
            budget_request=str(flags["attended"] or "1.0"),
            mode=how.protocol.name,
            selects_pages=True,
        )
        for flags in asked
    ]


def units_of(trace: Trace, job: Job) -> pd.DataFrame:
    """What the rows of a text say of its trace, as those of a replay: every token stays."""
    (sequence,) = (each for each in trace.sequences if each.name == job.name)
    rows = [
        {
            "layer": layer.index, "kv_head": head, "peak_tokens": len(job.ids),
            "trace_id": trace.trace_id, "kvsim_version": _engine.version(),
        }
        for layer in sequence.layers
        for head in layer.kv_heads
    ]  # fmt: skip
    return pd.DataFrame(rows)


def choices(trace: Trace, job: Job, plans: list[Plan], how: How) -> dict[Plan, dict[int, list]]:
    """What each plan attends to, by layer a Selected per KV head."""
    names = [plan.policy for plan in plans]
    options = {"mode": how.protocol.mode, "seed": how.seed, "sequences": [job.name]}
    of_name = {plan.policy: plan for plan in plans}
    found: dict[Plan, dict[int, list[Selected]]] = {plan: {} for plan in plans}
    for name, layer, _, *attended in _engine.choices(trace._opened, names, options, None):
        found[of_name[name]].setdefault(layer, []).append(Selected(*attended))
    return found
