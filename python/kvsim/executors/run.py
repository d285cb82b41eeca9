"""Sends the tasks of a sweep to workers and stores what comes back."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING

from .. import policy
from ..errors import KvsimError, WorkerError
from ..results.frames import frame_of
from ..trace import Trace
from .attempts import Attempt, Attempts
from .job import Job, job_of
from .pool import Died, Pool
from .worker import Parts, Raised, replay

if TYPE_CHECKING:
    from .. import _engine

TASK_SECONDS: float | None = None
"""Of work in a task; None: task_nanoseconds() of sim/sweep/shards/sweep_tasks.h."""

BATCH = 256
"""Tasks that are sent between two looks at what has come back."""


def run_parts(
    executor: Executor,
    sweep: _engine.PartedSweep,
    traces: list[Trace],
    budgets: list[str],
    options: dict[str, object],
    report: Callable[[int, int], object] | None,
) -> list[str]:
    """Replays what remains of `sweep` in the workers of an executor.

    Rows are stored as tasks end. Raises what a task raised, with a note of its place; tasks that
    have not begun are cancelled then, and those that have ended are stored. A task whose worker
    died is done again, each of its work items for itself. Returns the places of the items that are
    skipped because they killed their workers. Raises WorkerError if nothing could be replayed.
    """
    tasks = sweep.tasks(TASK_SECONDS)
    one_by_one = isinstance(executor, (ProcessPoolExecutor, ThreadPoolExecutor))
    job = job_of(sweep, traces, budgets, options, 1 if one_by_one else len(tasks))
    with _Run(executor, sweep, job, tasks) as run:
        while run.send():
            run.store_ended()
            if report is not None:
                report(sweep.done(), sweep.total())
    return run.given_up()


class _Run:
    def __init__(
        self,
        executor: Executor,
        sweep: _engine.PartedSweep,
        job: Job,
        tasks: list[_engine.SweepTask],
    ):
        self._waits = False
        self._done: list[tuple[_engine.SweepTask, list]] = []
        self._sweep = sweep
        self._job = job
        self._pool = Pool(executor)
        self._attempts = Attempts(sweep, tasks)

    def __enter__(self) -> _Run:
        return self

    def send(self) -> bool:
        """Sends tasks; returns whether there is something to wait for."""
        for _ in range(BATCH):
            attempt = self._attempts.next() if self._pool.has_room() else None
            self._waits = attempt is None
            if attempt is None:
                break
            parts, ticket = self._sweep.parts_of(attempt.task), uuid.uuid4().hex
            self._pool.start(attempt, replay, self._job.digest, self._job.pickled, parts, ticket)
        return self._pool.running > 0

    def store_ended(self) -> None:
        """Stores what has ended, and waits for that if there is nothing else to do.

        Then raises what a task raised.
        """
        raised, wait = None, self._waits
        while (ended := self._pool.ended(wait)) is not None:
            wait = False
            attempt, outcome = ended
            if isinstance(outcome, Died):
                self._attempts.died(attempt, outcome.deaths)
            elif isinstance(outcome, (Raised, BaseException)):
                raised = raised or self._error(attempt, outcome)
            else:
                self._done.append((attempt.task, outcome))
                self._attempts.succeeded(attempt)
        self._store()
        if raised is not None:
            raise raised

    def _store(self) -> None:
        """Stores all that has come back in one commit, which takes as long as one for a task."""
        done, self._done = self._done, []  # those that it throws on are not to be added again
        self._sweep.add(done)

    def given_up(self) -> list[str]:
        """Returns what run_parts() returns, or raises WorkerError."""
        killers = self._places(self._attempts.skipped)
        if untried := self._places(self._attempts.untried()):
            error = WorkerError(
                "executor: nothing can be replayed: workers died of every task, and of the "
                f"cheapest units alone, again and again: {_few(killers)}; not tried again: "
                f"{_few(untried)}; without an executor, the same call on such a unit shows why"
            )
            error.frame = frame_of(self._sweep.columns())
            raise error
        return killers

    def _places(self, tasks: list[_engine.SweepTask]) -> list[str]:
        units = [unit for task in tasks for unit in _units_of(self._sweep.parts_of(task))]
        return [_place(unit) for unit in sorted(units)]

    def _error(self, attempt: Attempt, outcome: Raised | BaseException) -> BaseException:
        if isinstance(outcome, KvsimError):  # of the executor, not of a task
            return outcome
        units = _units_of(self._sweep.parts_of(attempt.task))
        more = f" and {len(units) - 1} more" if len(units) > 1 else ""
        error = pickle.loads(outcome.error) if isinstance(outcome, Raised) else outcome
        if isinstance(outcome, Raised):
            error.__cause__ = _TracebackOfWorker(outcome.traceback)
        policy.add_note(error, f"in a worker, on {_place(units[0])}{more}")
        return error

    def __exit__(self, _: object, raised: BaseException | None, __: object) -> None:
        """Stores what has ended, and cancels the rest."""
        try:
            while (ended := self._pool.ended(wait=False)) is not None:
                attempt, outcome = ended
                if isinstance(outcome, list):
                    self._done.append((attempt.task, outcome))
            self._store()
        finally:
            failures = self._pool.close()
            if failures and raised is not None:
                policy.add_note(
                    raised,
                    f"executor: {len(failures)} tasks could not be cancelled, and may go on in "
                    f"vain ({failures[0]})",
                )


class _TracebackOfWorker(Exception):
    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def _units_of(parts: Parts) -> list[tuple[int, str, int, int]]:
    """Lists each unit as (index of the trace, sequence, layer, KV head)."""
    return [
        (trace, sequence, layer, head)
        for trace, sequence, units in parts
        for layer, head, _ in units
    ]


def _place(unit: tuple[int, str, int, int]) -> str:
    _, sequence, layer, head = unit
    return f"{sequence} layer {layer} head {head}"


def _few(places: list[str]) -> str:
    return "; ".join(places[:5]) + (f"; and {len(places) - 5} more" if places[5:] else "")
