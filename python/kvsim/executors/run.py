"""Sends the tasks of a sweep to workers and stores what comes back."""

from __future__ import annotations

import pickle
import uuid
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import policy
from ..trace import Trace
from .crew import Crew, Died
from .job import Job, job_of
from .worker import Parts, Raised, replay

if TYPE_CHECKING:
    from .. import _engine

MOST_DEATHS = 3
"""Of workers by one work item, after which it is skipped."""

MOST_SKIPPED = 10
"""Work items that are skipped one after the other before all that remain are."""

TASK_SECONDS: float | None = None
"""Of work in a task; None: task_nanoseconds() of sim/sweep/sweep_tasks.h."""

BATCH = 256
"""Tasks that are sent between two looks at what has come back."""


def run_parts(
    executor: Executor,
    sweep: _engine.PartedSweep,
    traces: list[Trace],
    budgets: str,
    options: dict[str, object],
    report: Callable[[int, int], object] | None,
) -> list[str]:
    """Replays what remains of `sweep` in the workers of an executor.

    Rows are stored as tasks end. Raises what a task raised, with a note of its place; tasks that
    have not begun are cancelled then, and those that have ended are stored. A task whose worker
    died is done again, each of its work items for itself. Returns the places of the items that are
    skipped because they killed their workers.
    """
    run = _Run(executor, sweep, job_of(sweep, traces, budgets, options))
    try:
        while run.send():
            run.store_ended()
            if report is not None:
                report(sweep.done(), sweep.total())
    finally:
        run.close()
    return run.skipped()


@dataclass(eq=False)
class _Attempts:
    """At a task, or at a work item that is one."""

    task: _engine.SweepTask
    deaths: int = 0


class _Run:
    def __init__(self, executor: Executor, sweep: _engine.PartedSweep, job: Job):
        self._skipped: list[tuple[int, str, int, int]] = []
        self._in_a_row = 0
        self._done: list[tuple[_engine.SweepTask, list]] = []
        self._sweep = sweep
        self._job = job
        self._crew = Crew(executor)
        self._todo = deque(_Attempts(task) for task in sweep.tasks(TASK_SECONDS))

    def send(self) -> bool:
        """Sends tasks; returns whether there is something to wait for."""
        for _ in range(BATCH):
            if not self._todo or not self._crew.has_room():
                break
            attempt = self._todo[0]
            parts, ticket = self._sweep.parts_of(attempt.task), uuid.uuid4().hex
            self._crew.start(attempt, replay, self._job.digest, self._job.pickled, parts, ticket)
            self._todo.popleft()
        return self._crew.running > 0

    def store_ended(self) -> None:
        """Stores what has ended, and waits for that if there is nothing else to do.

        Then raises what a task raised.
        """
        raised = None
        wait = not self._todo or not self._crew.has_room()
        while (ended := self._crew.ended(wait)) is not None:
            wait = False
            attempt, outcome = ended
            if isinstance(outcome, Died):
                self._do_again(attempt, outcome.deaths)
            elif isinstance(outcome, (Raised, BaseException)):
                raised = raised or self._error(attempt, outcome)
            else:
                self._done.append((attempt.task, outcome))
                self._in_a_row = 0
        self._store()
        if raised is not None:
            raise raised

    def _store(self) -> None:
        """One commit for all that has come back: it takes as long as one for a task."""
        self._sweep.add(self._done)
        self._done = []

    def _do_again(self, attempt: _Attempts, deaths: int) -> None:
        items = self._sweep.items_of(attempt.task)
        if deaths == 0:  # it may have been a task beside it
            self._todo.append(attempt)
        elif len(items) > 1:
            self._todo.extendleft(_Attempts(item) for item in reversed(items))
        elif attempt.deaths + deaths < MOST_DEATHS:
            self._todo.appendleft(_Attempts(attempt.task, attempt.deaths + deaths))
        else:
            self._skip(attempt.task)
            self._in_a_row += 1
            if self._in_a_row >= MOST_SKIPPED:
                while self._todo:
                    self._skip(self._todo.popleft().task)

    def _skip(self, task: _engine.SweepTask) -> None:
        self._skipped += _units_of(self._sweep.parts_of(task))

    def skipped(self) -> list[str]:
        return [_place(unit) for unit in sorted(self._skipped)]

    def _error(self, attempt: _Attempts, outcome: Raised | BaseException) -> BaseException:
        units = _units_of(self._sweep.parts_of(attempt.task))
        more = f" and {len(units) - 1} more" if len(units) > 1 else ""
        error = pickle.loads(outcome.error) if isinstance(outcome, Raised) else outcome
        if isinstance(outcome, Raised):
            error.__cause__ = _TracebackOfWorker(outcome.traceback)
        policy.add_note(error, f"in a worker, on {_place(units[0])}{more}")
        return error

    def close(self) -> None:
        """Stores what has ended, and cancels the rest."""
        try:
            while (ended := self._crew.ended(wait=False)) is not None:
                attempt, outcome = ended
                if isinstance(outcome, list):
                    self._done.append((attempt.task, outcome))
            self._store()
        finally:
            self._crew.close()


class _TracebackOfWorker(Exception):
    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def _units_of(parts: Parts) -> list[tuple[int, str, int, int]]:
    """(index of the trace, sequence, layer, KV head) of each."""
    return [
        (trace, sequence, layer, head)
        for trace, sequence, units in parts
        for layer, head, _ in units
    ]


def _place(unit: tuple[int, str, int, int]) -> str:
    _, sequence, layer, head = unit
    return f"{sequence} layer {layer} head {head}"
