"""Schedules: tasks on workers, in the order of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush, heapreplace

import numpy as np

from .conditions import Conditions

TRIES = 3  # as the executor: who kills three workers is left out


@dataclass(frozen=True)
class Tasks:
    """What there is to do, in the order in which it is handed out."""

    seconds: np.ndarray
    """[tasks], of each on one worker that is not slow, without overhead."""
    rows: np.ndarray
    """[tasks], that it leaves."""

    def __len__(self) -> int:
        return len(self.seconds)

    def of(self, chosen: Sequence[int] | np.ndarray) -> Tasks:
        return Tasks(self.seconds[chosen], self.rows[chosen])


@dataclass(frozen=True)
class Schedule:
    """What became of the tasks."""

    makespan: float
    """Seconds until all rows are stored and returned."""
    repeated: int = 0
    """Tasks that began once more, as their worker died."""
    given_up: int = 0
    """Those of them that were left out in the end."""


def with_executor(tasks: Tasks, workers: int, conditions: Conditions) -> Schedule:
    """Workers that take the next task when they are free, and a coordinator that stores rows.

    Tasks are submitted one by one. Workers do not wait until their rows are stored; the coordinator
    stores them after it has submitted all tasks: each time all that have come, in one commit.
    """
    overhead = conditions.overhead
    rng = np.random.default_rng(conditions.seed)
    planned = overhead.plan * float(tasks.rows.sum())
    submitted = planned + overhead.submit * np.arange(1, len(tasks) + 1)
    slow = _slowdowns(workers, conditions, rng)
    ends, repeated, given_up = end_times(tasks, submitted, slow, conditions, rng)
    costs = overhead.receive + overhead.store * tasks.rows
    stored = served_together(np.maximum(ends, submitted[-1]), costs, overhead.commit)
    collected = overhead.collect * float(tasks.rows.sum())
    return Schedule(stored + collected, repeated, given_up)


def with_shards(
    tasks: Tasks, shard_of: np.ndarray, shards: int, threads: int, conditions: Conditions
) -> Schedule:
    """Shards that were dealt out before, each with its own threads and its own result file.

    `shard_of` [tasks] is 1 to `shards`. A shard plans the whole command. It has no tasks to submit
    or to receive; its rows are committed a task at a time.
    """
    overhead = conditions.overhead
    rng = np.random.default_rng(conditions.seed)
    slow = _slowdowns(shards, conditions, rng)
    planned = conditions.startup + overhead.plan * float(tasks.rows.sum())
    order = np.argsort(shard_of, kind="stable")
    bounds = np.searchsorted(shard_of[order], np.arange(1, shards + 2))
    makespan, repeated, given_up = planned, 0, 0
    for shard in range(shards):
        own = tasks.of(order[bounds[shard] : bounds[shard + 1]])
        if len(own) == 0:
            continue
        ready = np.full(len(own), planned)
        ends, again, lost = end_times(own, ready, [slow[shard]] * threads, conditions, rng, 0.0)
        costs = overhead.commit + overhead.store * own.rows
        makespan = max(makespan, served(ends, costs * slow[shard]))
        repeated, given_up = repeated + again, given_up + lost
    return Schedule(makespan, repeated, given_up)


def end_times(
    tasks: Tasks,
    ready: np.ndarray,
    slow: Sequence[float],
    conditions: Conditions,
    rng: np.random.Generator,
    per_task: float | None = None,
) -> tuple[np.ndarray, int, int]:
    """When each task ends that workers with these slowdowns take as soon as they are free.

    `ready` [tasks], ascending, is when they can be had; `per_task` what a worker adds to each, by
    default the worker's overhead. Returns the times, how many tasks began again after a death and
    how many were given up, which end with their last worker.
    """
    startup, life = conditions.startup, conditions.life
    added = conditions.overhead.worker if per_task is None else per_task
    seconds = (tasks.seconds + added).tolist()
    free = [(startup, worker) for worker in range(len(slow))]  # sorted, and so a heap
    waiting = list(zip(ready.tolist(), range(len(seconds)), strict=True))
    ends, tries, repeated, given_up = np.empty(len(seconds)), {}, 0, 0
    never = float("inf")
    dies = [never if life is None else startup + rng.exponential(life) for _ in slow]
    while waiting:
        since, worker = free[0]
        begins = max(since, waiting[0][0])
        death = dies[worker]
        if death > begins:
            _, task = heappop(waiting)
            end = begins + seconds[task] * slow[worker]
            ends[task] = min(end, death)
            if end <= death:
                heapreplace(free, (end, worker))
                continue
            tries[task] = tries.get(task, 0) + 1
            if tries[task] < TRIES:
                heappush(waiting, (death, task))
                repeated += 1
            else:
                given_up += 1
        heapreplace(free, (death + startup, worker))
        dies[worker] = death + startup + rng.exponential(life)
    return ends, repeated, given_up


def served(arrivals: np.ndarray, costs: np.ndarray) -> float:
    """When one who serves arrivals in their order, each for its cost, is done with the last."""
    order = np.argsort(arrivals, kind="stable")
    done = np.cumsum(costs[order])
    return float(done[-1] + np.max(arrivals[order] - (done - costs[order])))


def served_together(arrivals: np.ndarray, costs: np.ndarray, per_turn: float) -> float:
    """The same where one serves all that have come at each turn, which costs something itself."""
    order = np.argsort(arrivals, kind="stable")
    arrivals, done = arrivals[order], np.concatenate(([0.0], np.cumsum(costs[order])))
    now, first = 0.0, 0
    while first < len(arrivals):
        now = max(now, arrivals[first])
        last = int(np.searchsorted(arrivals, now, side="right"))
        now += per_turn + float(done[last] - done[first])
        first = last
    return now


def _slowdowns(workers: int, conditions: Conditions, rng: np.random.Generator) -> list[float]:
    slow = np.ones(workers)
    slow[: round(conditions.straggler_share * workers)] = conditions.straggler_factor
    return rng.permutation(slow).tolist()
