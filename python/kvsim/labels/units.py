"""Labels of a trace, unit after unit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..verbs.options import Options, listed, opened
from ..verbs.shared import options_without

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from ..trace import Trace

NOT_HERE = ("seed", "allocate", "reference", "every", "device", "shard", "scratch")
"""Options of other verbs: nothing is drawn, labels are made on the CPU, and `output` is no result
file."""
_LONGEST_BLOCK = 2**31 - 1  # an int of the engine


@dataclass
class UnitLabels:
    """The labels of one KV head. With B budgets, n tokens and K blocks."""

    sequence: str
    layer: int
    kv_head: int
    budgets: list[int]
    """In tokens, [B]."""
    budget_requests: list[str]
    """As they were asked for, [B]."""
    arrays: dict[str, np.ndarray]
    """future_attention [n], future_attention_blocks [K, n], optimal_evicted_after [B, n],
    next_access [n], slot_price [B, n]."""


class Labelling:
    """A trace and what to label of it. Raises UsageError and DataError."""

    def __init__(
        self,
        trace: str | Path | Trace,
        budgets: str | float | Sequence[str | float] | None,
        block: int,
        options: Options,
    ) -> None:
        from .. import _engine

        settings = options_without(NOT_HERE, options)
        if not isinstance(block, Integral) or not 1 <= block <= _LONGEST_BLOCK:
            raise UsageError(
                f"--block: expected a whole number from 1 to {_LONGEST_BLOCK}, found {block!r}"
            )
        amounts = [] if budgets is None else listed(budgets)
        (self.trace,) = opened(trace)
        self.block = int(block)
        self._plan = _engine.LabelPlan(self.trace._opened, amounts, self.block, settings)
        self._units = self._plan.units()
        self.mode = self._plan.mode()

    @property
    def threads(self) -> int:
        return self._plan.threads()

    @property
    def memory_bytes(self) -> int:
        """An estimate of what the process takes, the labels of `threads` units included."""
        return self._plan.memory_bytes()

    def __len__(self) -> int:
        """The number of units."""
        return len(self._units)

    def budgets(self) -> dict[str, list[int]]:
        """The budgets of each sequence, in tokens."""
        return {unit[0]: [tokens for tokens, _ in unit[4]] for unit in self._units}

    def units(self, report: Callable[[int, int], object] | None = None) -> Iterator[UnitLabels]:
        """In the order of sequences, layers and KV heads; as many at once as there are threads."""
        for first in range(0, len(self), self.threads):
            count = min(self.threads, len(self) - first)
            made = self._plan.labels(first, count)
            for unit, arrays in zip(self._units[first : first + count], made, strict=True):
                sequence, layer, kv_head, _, budgets = unit
                tokens = [each for each, _ in budgets]
                requests = [request for _, request in budgets]
                yield UnitLabels(sequence, layer, kv_head, tokens, requests, arrays)
            if report is not None:
                report(first + count, len(self))
