"""`kvsim.scale`: what a sweep would reach on many workers, as a frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..errors import UsageError
from ..verbs.options import Options, engine_options, listed, opened
from .conditions import Conditions, Overhead
from .limits import COORDINATOR, Plan, limit_of
from .schedule import Schedule, Tasks, with_executor, with_shards
from .work import Work, planned_work

if TYPE_CHECKING:
    import pandas as pd
    from typing_extensions import Unpack

    from ..verbs.sweep import Traces

COLUMNS = [
    "way", "workers", "tasks", "makespan", "efficiency", "limit", "efficiency_without", "repeated",
    "given_up",
]  # fmt: skip


def scale(
    trace: Traces,
    policies: str | type | Sequence[str | type],
    budgets: str | float | Sequence[str | float],
    workers: int | Sequence[int] = (64, 1024, 10_000),
    *,
    units: int | None = None,
    unit_seconds: float | None = None,
    shard_threads: int = 1,
    overhead: Mapping[str, float] | None = None,
    startup: float = 0.0,
    stragglers: tuple[float, float] = (0.0, 1.0),
    deaths: float | None = None,
    seed: int = 0,
    **options: Unpack[Options],
) -> pd.DataFrame:
    """What `kvsim.sweep` of these would reach on so many workers, by a model of the schedule.

    >>> kvsim.scale("trace.h5", ["h2o", "tova"], ["10%", "20%"], [64, 1024], units=100_000)

    Nothing is replayed. The plan is that of the sweep, its costs are estimates; tasks are grouped
    as `executor=` does, shards dealt out as `--shard` does.

    Arguments:
      trace, policies, budgets, options: as `sweep` takes them; `mode`, `sequences`, `layers`,
        `heads`, `eviction_interval` and `allocate` change the plan.
      workers: how many, each one core.
      units: as if there were so many, of texts like those of the trace; None: as there are.
      unit_seconds: what a unit takes in the mean with all its configurations, where you measured
        it; None: the estimate.
      shard_threads: the workers of one shard.
      overhead: seconds beside the replays, any of `worker`, `submit` and `receive` per task,
        `plan`, `store` and `collect` per row, and `commit`: of a shard per task, of the process
        that stores for an executor per turn, with all tasks that have come meanwhile
        (kvsim.scale.conditions.Overhead).
      startup: seconds until a worker takes its first task, also after a death.
      stragglers: the share of slow workers, and how many times as long they take.
      deaths: mean hours between the deaths of a worker; None: none.
      seed: of what is drawn: which workers are slow and when they die.

    Returns a frame with a row per way ("executor", "shards") and number of workers: `tasks` (of
    shards: what they are dealt), `makespan` [s], `efficiency` (the work over workers x makespan),
    `limit` (what costs most: without it the schedule would end the earliest), `efficiency_without`
    it, `repeated` (tasks that began again after a death) and `given_up` (of these, after three).
    sim/sweep/cluster.md says what the model leaves out.

    Raises what `sweep` raises for its arguments, UsageError for impossible ones of the model.
    """
    counts = [workers] if isinstance(workers, int) else list(workers)
    _check_counts(counts, units, unit_seconds, shard_threads)
    conditions = Conditions(
        overhead=_overhead(overhead or {}),
        startup=startup,
        straggler_share=stragglers[0],
        straggler_factor=stragglers[1],
        life=None if deaths is None else deaths * 3600,
        seed=seed,
    )
    specs, amounts = listed(policies, ";"), listed(budgets, ",")
    if not specs or not amounts:
        raise UsageError("a sweep takes at least one policy and one budget")
    traces = [each._opened for each in opened(trace)]
    work = planned_work(traces, specs, amounts, engine_options(options))
    if units is not None:
        work = work.repeated(units)
    if unit_seconds is not None:
        work = work.at_unit_seconds(unit_seconds)
    return _frame(work, counts, shard_threads, conditions)


def _frame(work: Work, counts: list[int], threads: int, conditions: Conditions) -> pd.DataFrame:
    import pandas as pd

    tasks, items = work.tasks(), work.items()
    rows = []
    for count in counts:
        rows.append(_row("executor", tasks, count, partial(_executed, count), conditions))
    for count in counts:
        plan = partial(_sharded, count // threads, threads)
        rows.append(_row("shards", items, count, plan, conditions))
    return pd.DataFrame(rows, columns=COLUMNS)


def _row(way: str, tasks: Tasks, workers: int, plan: Plan, conditions: Conditions) -> list:
    found = plan(tasks, conditions)
    of_shards = way == "shards"
    limit = limit_of(plan, tasks, workers, conditions, found.makespan, commit_per_task=of_shards)
    # A shard has no coordinator: what is left of its overhead is its own.
    own = of_shards and limit.cause == COORDINATOR
    cause = "planning and storing" if own else limit.cause
    ideal = float(tasks.seconds.sum()) / workers
    return [
        way, workers, len(tasks), found.makespan, ideal / found.makespan, cause,
        ideal / limit.makespan, found.repeated, found.given_up,
    ]  # fmt: skip


def _executed(workers: int, tasks: Tasks, conditions: Conditions) -> Schedule:
    return with_executor(tasks, workers, conditions)


def _sharded(shards: int, threads: int, tasks: Tasks, conditions: Conditions) -> Schedule:
    return with_shards(tasks, dealt(tasks, shards), shards, threads, conditions)


def dealt(items: Tasks, shards: int) -> np.ndarray:
    """[items], the shard of each, 1 to `shards`, as `--shard` deals them out."""
    from .. import _engine

    costs = np.rint(items.seconds * 1e9).astype(np.int64).tolist()
    return np.array(_engine.deal(costs, shards))


def _overhead(given: Mapping[str, float]) -> Overhead:
    known = asdict(Overhead())
    for name in given:
        if name not in known:
            raise UsageError(f"overhead: there is no {name!r}; there are {', '.join(known)}")
    return Overhead(**{**known, **given})


def _check_counts(
    workers: list[int], units: int | None, unit_seconds: float | None, shard_threads: int
) -> None:
    if not workers:
        raise UsageError("workers: expected at least one number, found none")
    for name, value in (
        *(("workers", count) for count in workers),
        ("units", units),
        ("shard_threads", shard_threads),
    ):
        if value is not None and value < 1:
            raise UsageError(f"{name}: expected 1 or more, found {value}")
    if unit_seconds is not None and not 0 < unit_seconds < float("inf"):
        raise UsageError(f"unit_seconds: expected more than 0, found {unit_seconds}")
    for count in workers:
        if count % shard_threads:
            raise UsageError(
                f"workers: {count} are not whole shards of {shard_threads} threads; give multiples"
            )
