"""What limits a schedule: each cause is switched off in turn, and the schedule made again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from .conditions import Conditions
from .schedule import Schedule, Tasks

NOTHING = "nothing"
COORDINATOR = "the coordinator"
_NOTABLE = 0.005  # of the makespan
_PER_WORKER = 32  # tasks, where their number is to limit nothing

Plan = Callable[[Tasks, Conditions], Schedule]


@dataclass(frozen=True)
class Limit:
    """The cause without which a schedule would end the earliest."""

    cause: str
    makespan: float
    """Of the schedule without it."""


def limit_of(
    plan: Plan,
    tasks: Tasks,
    workers: int,
    conditions: Conditions,
    makespan: float,
    commit_per_task: bool = False,
) -> Limit:
    """What limits `plan(tasks, conditions)`, which takes `makespan` seconds.

    `commit_per_task`: as at a shard; else a commit is for all tasks of a turn.
    """
    without = {
        cause: plan(tasks, off).makespan
        for cause, off in _conditions_without(conditions).items()
        if off != conditions
    }
    parts = max(2, -(-_PER_WORKER * workers // len(tasks)))
    overhead = conditions.overhead.of_smaller_tasks(parts, commit_per_task)
    small = replace(conditions, overhead=overhead)
    split = plan(_split(tasks, parts), small).makespan
    even = plan(_evened(tasks), conditions).makespan
    # Small tasks are even ones, too: it is their number unless even ones do as well.
    of_size = "the longest task" if makespan - even > (makespan - split) / 2 else "too few tasks"
    without[of_size] = split
    cause = min(without, key=without.__getitem__)
    if makespan - without[cause] < _NOTABLE * makespan:
        return Limit(NOTHING, makespan)
    return Limit(cause, without[cause])


def _conditions_without(conditions: Conditions) -> dict[str, Conditions]:
    overhead = conditions.overhead
    return {
        COORDINATOR: replace(conditions, overhead=overhead.at_worker_only()),
        "overhead of tasks": replace(conditions, overhead=replace(overhead, worker=0.0)),
        "start-up": replace(conditions, startup=0.0),
        "stragglers": replace(conditions, straggler_share=0.0),
        "deaths": replace(conditions, life=None),
    }


def _split(tasks: Tasks, parts: int) -> Tasks:
    return Tasks(np.repeat(tasks.seconds / parts, parts), np.repeat(tasks.rows / parts, parts))


def _evened(tasks: Tasks) -> Tasks:
    return Tasks(np.full(len(tasks), tasks.seconds.mean()), np.full(len(tasks), tasks.rows.mean()))
