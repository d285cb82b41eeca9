"""The rows of one text: its configurations in a loop, scored against the full cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ..model.decoder import model_name
from . import imposed
from .overlap import overlap
from .replayed import kept_sets
from .scoring import Scorer, Steps

if TYPE_CHECKING:
    import pandas as pd

    from ..trace import Trace
    from .kept_attention import Kept
    from .loops import How, Job, Outcome, Plan

BYTES_OF_CPU = 1 << 30  # that logits and masks of a batch may take


@dataclass(frozen=True)
class Work:
    """What has to be computed for a text."""

    model: Any
    job: Job
    trace: Trace
    full: torch.Tensor  # [n, vocabulary]: the logits with the full cache
    plans: Mapping[Plan, pd.DataFrame]  # of the text, with the rows of their replays
    todo: list[Plan]
    how: How
    loop: str

    def values(self) -> Iterator[tuple[Plan, dict[str, object], Steps]]:
        """The columns of each plan that are no part of its key, as they are computed, and what its
        steps are worth."""
        first = self.how.first_step(self.job)
        scorer = Scorer(self.job, self.full, first)
        for kept in kept_sets(self.trace, self.job, self.todo, self.how):
            for plan, outcome in self._outcomes(kept):
                steps = scorer.steps(outcome.logits)
                units = self.plans[plan]
                yield (
                    plan,
                    {
                        **vars(scorer.mean(steps)),
                        "kept_overlap": _overlap(kept[plan], outcome, first),
                        "peak_tokens": outcome.peak_tokens,
                        "cache_bytes": outcome.cache_bytes,
                        "trace_id": units.trace_id.iloc[0],
                        "model": model_name(self.model),
                        "device": self.model.device.type,
                        "kvsim_version": units.kvsim_version.iloc[0],
                    },
                    steps,
                )

    def _outcomes(self, kept: Mapping[Plan, dict[int, Kept]]) -> Iterator[tuple[Plan, Outcome]]:
        memory = most_bytes(self.model.device)
        if self.loop == "imposed":
            trace_bytes = 2 if self.trace.dtype == "float16" else 4
            yield from imposed.run(self.model, self.job, kept, self.plans, memory, trace_bytes)
        else:
            from . import adaptive

            yield from adaptive.run(self.model, self.job, list(kept), self.how, memory, self.trace)


def _overlap(replayed: dict[int, Kept], outcome: Outcome, first_step: int) -> float | None:
    if not outcome.is_set:
        return None
    return 1.0 if outcome.kept is None else overlap(replayed, outcome.kept, first_step)


def most_bytes(device: torch.device) -> int:
    if device.type != "cuda":
        return BYTES_OF_CPU
    free, _ = torch.cuda.mem_get_info(device)
    return free // 2
