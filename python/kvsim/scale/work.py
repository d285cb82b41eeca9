"""The work of a sweep as its plan has it: what is handed out, and how it is grouped into tasks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..errors import UsageError
from .schedule import Tasks


@dataclass(frozen=True)
class Work:
    """Items: what is never split, mostly a unit with all its configurations."""

    nanoseconds: np.ndarray
    """int64 [items], estimated, on one core."""
    rows: np.ndarray
    """int64 [items], that they leave."""
    width: np.ndarray
    """int64 [items], units that are read together."""
    units: int
    """Of all items; an item may have some of a unit's rows."""

    @property
    def seconds(self) -> float:
        return float(self.nanoseconds.sum()) / 1e9

    def repeated(self, units: int) -> Work:
        """As many texts like these as make so many units, the last one cut."""
        copies = -(-units // self.units)
        chosen = np.tile(np.arange(len(self.rows)), copies)
        rows = units * int(self.rows.sum()) / self.units
        chosen = chosen[: np.searchsorted(np.cumsum(self.rows[chosen]), rows) + 1]
        chosen = chosen[np.argsort(self.width[chosen], kind="stable")]  # as a plan: small first
        return Work(self.nanoseconds[chosen], self.rows[chosen], self.width[chosen], units)

    def at_unit_seconds(self, seconds: float) -> Work:
        """As if a unit took so long in the mean."""
        factor = seconds * self.units / self.seconds
        return replace(self, nanoseconds=np.rint(self.nanoseconds * factor).astype(np.int64))

    def tasks(self) -> Tasks:
        """As the executor groups and orders them."""
        from .. import _engine
        from ..executors.run import TASK_SECONDS

        each = None if TASK_SECONDS is None else round(1e9 * TASK_SECONDS)
        groups = _engine.tasks_of(self.nanoseconds.tolist(), each)
        seconds = [self.nanoseconds[group].sum() / 1e9 for group in groups]
        return Tasks(np.array(seconds), np.array([self.rows[group].sum() for group in groups]))

    def items(self) -> Tasks:
        return Tasks(self.nanoseconds / 1e9, self.rows)


def planned_work(traces: list, policies: str, budgets: str, options: dict[str, object]) -> Work:
    """What a sweep of these has to do; `traces` as the engine takes them."""
    from .. import _engine

    units, items = _engine.work_items(traces, policies, budgets, options)
    if not items:
        raise UsageError("nothing to replay: the plan is empty")
    return Work(*(np.array(column, np.int64) for column in zip(*items, strict=True)), units)
