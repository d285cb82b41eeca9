"""Orders the tasks that remain of a sweep, as workers get them."""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .. import _engine

MOST_DEATHS = 3
"""Of workers by one work item, after which it is skipped."""

MOST_FRUITLESS = 10
"""Work items that are tried alone while nothing of the sweep has succeeded."""


@dataclass(eq=False)
class Attempt:
    """An attempt at a task, which may be a single work item."""

    task: _engine.SweepTask
    alone: bool = False  # after a worker has died of it
    deaths: int = 0


class Attempts:
    """Tasks of which no worker has died go first; then the work items of those others, alone.

    Of these the cheapest is first: it needs the least memory. So whatever kills workers holds up
    nothing else, and each item is given up for itself. Only if every task has killed a worker,
    there are MOST_FRUITLESS items to show that anything works; if none does, the rest stays.
    """

    def __init__(self, sweep: _engine.PartedSweep, tasks: list[_engine.SweepTask]):
        self.skipped: list[_engine.SweepTask] = []
        self._sweep = sweep
        self._fresh = deque(Attempt(task) for task in tasks)
        self._alone: list[tuple[float, list[int], Attempt]] = []  # a heap, by cost
        self._running = {False: 0, True: 0}  # by Attempt.alone
        self._succeeded = False

    def next(self) -> Attempt | None:
        """The attempt to send now; None: there is none before another one has ended."""
        if self._fresh:
            attempt = self._fresh.popleft()
        elif self._alone and (self._succeeded or self._may_try_alone()):
            *_, attempt = heapq.heappop(self._alone)
        else:
            return None
        self._running[attempt.alone] += 1
        return attempt

    def _may_try_alone(self) -> bool:
        return (
            self._running[False] == 0 and self._running[True] + len(self.skipped) < MOST_FRUITLESS
        )

    def succeeded(self, attempt: Attempt) -> None:
        self._running[attempt.alone] -= 1
        self._succeeded = True

    def died(self, attempt: Attempt, deaths: int) -> None:
        """Plans what follows the death of a worker. `deaths`: as in Died."""
        self._running[attempt.alone] -= 1
        items = self._sweep.items_of(attempt.task)
        if deaths == 0:  # another task of the pool may have been the cause
            self._fresh.append(attempt)
        elif len(items) > 1:
            for item in items:
                self._try_alone(Attempt(item, alone=True))
        elif attempt.deaths + deaths < MOST_DEATHS:
            self._try_alone(Attempt(attempt.task, True, attempt.deaths + deaths))
        else:
            self.skipped.append(attempt.task)

    def _try_alone(self, attempt: Attempt) -> None:
        heapq.heappush(self._alone, (attempt.task.seconds, attempt.task.items, attempt))

    def untried(self) -> list[_engine.SweepTask]:
        """The tasks that remain when nothing can be sent and nothing runs."""
        return [attempt.task for *_, attempt in self._alone]
