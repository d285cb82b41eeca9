"""The rows of one text: its configurations in a loop, scored against the full cache."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ..model.decoder import model_name
from ..verbs.options import warn_of
from . import imposed
from .overlap import overlap
from .recorded import full_logits
from .replayed import batches, kept_sets, sweep_text, with_rows
from .scoring import Scorer, Steps
from .selected_pages import units_of

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from ..trace import Trace
    from ..trace.contents import Layer
    from ..verbs.progress import Tracker
    from .asked import Asked
    from .kept_attention import Kept
    from .loops import How, Job, Outcome, Plan
    from .replayed import KeptSets

# The stages of a text: its recording, the replays of all configurations, a row for each.
RECORD, REPLAY, ROW = "record", "replay", "row"
# How many forward passes one takes, until that has been measured. SmolLM2-135M, two cores, 1,091
# tokens.
PASSES = {RECORD: 4.0, REPLAY: 0.15, ROW: 1.1}
TOKENS_TO_GUESS = 64

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
    kept: KeptSets  # of those whose replays were made for it; the others are replayed again
    how: How
    loop: str
    # How the user's trace stores keys and values (_engine.vectors_of_layers); None: there is none,
    # and bytes count numbers as the model has them.
    vectors: list[tuple[int, int, int, int]] | None = None

    def values(
        self, on_replayed: Callable[[], object]
    ) -> Iterator[tuple[Plan, dict[str, object], Steps]]:
        """The columns of each plan that are no part of its key, as they are computed, and what its
        steps are worth. `on_replayed` is called whenever kept sets are at hand."""
        first = self.how.first_step(self.job)
        scorer = Scorer(self.job, self.full, first)
        for kept in kept_sets(self.trace, self.job, self.todo, self.how, self.kept):
            on_replayed()
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
            (sequence,) = (each for each in self.trace.sequences if each.name == self.job.name)
            of_token = self._token_bytes(sequence.layers)
            yield from imposed.run(self.model, self.job, kept, self.plans, memory, of_token)
        else:
            from . import adaptive

            sizes = {size for _, _, *of_layer in self.vectors or [] for size in of_layer}
            element = sizes.pop() if len(sizes) == 1 else None
            yield from adaptive.run(
                self.model, self.job, list(kept), self.how, memory, self.trace, element
            )

    def _token_bytes(self, layers: Sequence[Layer]) -> dict[int, int]:
        """Of a token in a KV head of each layer that has a cache."""
        own = [layer for layer in layers if layer.kv_from is None]
        if self.vectors is not None:
            sizes = [keys * of_key + values * of_value
                     for keys, values, of_key, of_value in self.vectors]  # fmt: skip
        else:
            numbers = [layer.shape["head_dim"] + layer.shape["value_dim"] for layer in own]
            sizes = [number * self.model.dtype.itemsize for number in numbers]
        return {layer.index: size for layer, size in zip(own, sizes, strict=True)}


def _overlap(replayed: dict[int, Kept], outcome: Outcome, first_step: int) -> float | None:
    if not outcome.is_set:
        return None
    return 1.0 if outcome.kept is None else overlap(replayed, outcome.kept, first_step)


def guessed_seconds(model: Any, job: Job) -> dict[str, float]:
    """Of each stage per token, from a forward pass over the first tokens of a text."""
    few = dataclasses.replace(job, ids=job.ids[:TOKENS_TO_GUESS])
    start = time.monotonic()
    full_logits(model, few)[0, 0].item()  # waits for a device
    of_token = (time.monotonic() - start) / len(few.ids)
    return {stage: passes * of_token for stage, passes in PASSES.items()}


def most_bytes(device: torch.device) -> int:
    if device.type != "cuda":
        return BYTES_OF_CPU
    free, _ = torch.cuda.mem_get_info(device)
    return free // 2


def replayed_rows(
    asked: Asked,
    output: str | Path | None,
    force: bool,
    command: str,
    scratch: str | Path | None,
    trace: Trace,
    job: Job,
    plans: list[Plan],
    missing: list[Plan],
    tracker: Tracker,
) -> tuple[dict[Plan, pd.DataFrame], KeptSets]:
    """The plans with their open-loop rows, and what those that were replayed for `missing` keep."""
    selecting = [plan for plan in plans if plan.selects_pages]
    there = dict.fromkeys(selecting, units_of(trace, job)) if selecting else {}
    plans = [plan for plan in plans if not plan.selects_pages]
    missing = [plan for plan in missing if not plan.selects_pages]
    tracker.advance(REPLAY, len(job.ids) * len(selecting))
    if not plans:
        return there, {}
    specs, amounts, options = asked.sweep_of(job)
    batch = next(iter(batches(trace, job, missing, asked.how)), [])
    keeping = list(dict.fromkeys(plan.policy for plan in batch))
    units = len(job.ids) * len(plans)

    def rows(again: bool) -> tuple[pd.DataFrame, list[str], KeptSets]:
        before = 0

        def report(done: int, total: int) -> None:
            nonlocal before
            tracker.advance(REPLAY, units * (done - before) / total)
            before = done

        own = {**options, "scratch": scratch}
        found = sweep_text(trace, specs, amounts, own, output, again, command, report, keeping)
        if not before:  # all rows were there
            tracker.advance(REPLAY, units)
        return found

    found, notes, kept = rows(force)
    warn_of(notes)
    # A row does not say after which prompt it was measured but by its number of steps.
    if (found.steps != len(job.ids) - asked.how.first_step(job)).any():
        found, _, kept = rows(True)
    return with_rows(plans, found) | there, kept
