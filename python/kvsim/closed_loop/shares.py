"""Shards of an evaluation: whole texts, partitioned by their estimated cost."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import _engine

if TYPE_CHECKING:
    from .asked import Asked
    from .loops import Job

FLOPS_PER_NANOSECOND = 20  # of one core


@dataclass(frozen=True)
class Share:
    """What one of several machines does of an evaluation."""

    jobs: list[Job]
    shard: str = ""  # I/N; empty: all of it
    study: str = ""  # what all its shards have in common, 16 hexadecimal digits
    note: str = ""  # how much of the work that is

    @property
    def is_empty(self) -> bool:
        return not self.jobs


def share_of(asked: Asked, shard: str, loop: str, model_id: str) -> Share:
    """The texts of a shard. Every machine deals them out alike: costs depend on what was asked for.

    Raises UsageError for what is not I/N.
    """
    index, count = _engine.parse_shard(shard)
    if count == 1:
        return Share(asked.jobs)
    costs = [estimated_nanoseconds(asked, job) for job in asked.jobs]
    shards = _engine.partition(costs, count)
    own = [job for job, of in zip(asked.jobs, shards) if of == index]
    part = sum(cost for cost, of in zip(costs, shards) if of == index) / sum(costs)
    name = f"{index}/{count}"
    note = f"shard {name}: {len(own)} of {len(shards)} texts, about {part:.1%} of the work"
    if not own:
        note = f"shard {name}: nothing to do, as there are fewer texts than shards"
    return Share(own, name, _study(asked, shards, count, loop, model_id), note)


def estimated_nanoseconds(asked: Asked, job: Job) -> int:
    """Of the forward passes of a text on one core: one in full and one per configuration."""
    config = asked.model.config.get_text_config()
    weights = sum(weight.numel() for weight in asked.model.parameters())
    tokens = len(job.ids)
    of_pass = 2 * tokens * (weights + 2 * tokens * config.num_hidden_layers * config.hidden_size)
    return (1 + _configurations(asked)) * of_pass // FLOPS_PER_NANOSECOND


def _configurations(asked: Asked) -> int:
    """About how many: a range of budgets counts once."""
    evicting = len(_specs(asked)) * sum(1 + each.count(",") for each in asked.amounts)
    return evicting + len(asked.selectors)


def _specs(asked: Asked) -> list[str]:
    specs = [spec["text"] for spec in _engine.specs(asked.specs, asked.how.allocate)]
    return [spec for spec in specs if spec not in asked.refused]


def _study(asked: Asked, shards: list[int], count: int, loop: str, model_id: str) -> str:
    """A digest of the texts, and of the shards that they belong to."""
    trace = "" if asked.trace is None else asked.trace.trace_id
    words: list[object] = ["evaluate", model_id, loop, *sorted(asked.how.options().items())]
    words += [*_specs(asked), ",".join(asked.amounts), trace, count]
    words += [flags["text"] for flags in asked.selectors]
    words += [*sorted(asked.also.parts), asked.also.gradient_samples]
    for job, shard in zip(asked.jobs, shards):
        words += [job.name, job.text_id, job.prompt_length, job.spans_id, shard]
    return hashlib.sha256("\n".join(map(str, words)).encode()).hexdigest()[:16]
