"""Progress of long work."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = bool | Callable[[int, int], object] | None

# Called with the rows that are done, all rows, what is being done, and how many seconds are left,
# None if that is unknown.
Watch = Callable[[int, int, str, float | None], object]


class Tracker:
    """Shows how far work is whose stages take differently long.

    Each kind of stage is counted in units of its own. What is left of it takes as long for each
    unit as what has been done, and before that, as long as was guessed.
    """

    def __init__(self, show: Watch, estimates: bool = False) -> None:
        """`estimates`: whether it is worth while to guess how long the stages take."""
        self._show = show
        self.estimates = estimates
        self._left: Counter[str] = Counter()  # units of each kind
        self._finished: Counter[str] = Counter()
        self._spent: Counter[str] = Counter()  # seconds
        self._guessed: dict[str, float] = {}  # seconds for each unit
        self._done = self._total = 0
        self._doing = ""
        self._since = time.monotonic()

    def expect(self, kind: str, units: float) -> None:
        """There is so much more to do."""
        self._left[kind] += units

    def guess(self, seconds: dict[str, float]) -> None:
        """How long a unit of each kind may take."""
        self._guessed = seconds

    def count(self, done: int, total: int) -> None:
        """How many rows there are."""
        self._done, self._total = done, total

    def begin(self, doing: str) -> None:
        """Says what is done from now on."""
        self._doing = doing
        self._show(self._done, self._total, doing, self._seconds_left())

    def advance(self, kind: str, units: float, rows: int = 0, then: str | None = None) -> None:
        """Units of a kind are done, and with them so many rows; they took the time since then.

        `then` is what is done next; None: the same.
        """
        now = time.monotonic()
        self._spent[kind] += now - self._since
        self._since = now
        self._finished[kind] += units
        self._left[kind] -= units
        self._done += rows
        self.begin(self._doing if then is None else then)

    def _seconds_left(self) -> float | None:
        seconds = 0.0
        for kind, units in self._left.items():
            if self._finished[kind] > 0:
                seconds += units * self._spent[kind] / self._finished[kind]
            elif kind in self._guessed:
                seconds += units * self._guessed[kind]
            elif units > 0:
                return None
        return max(0.0, seconds)


@contextmanager
def reporter(progress: Progress, unit: str) -> Iterator[Callable[..., object] | None]:
    """What the engine calls with (done, total): a bar of tqdm, the caller's own, or nothing.

    None: a bar where standard error is a terminal, and in a notebook. A bar also takes what is
    being done.
    """
    if callable(progress):
        yield progress
        return
    if progress is None:
        progress = "ipykernel" in sys.modules or sys.stderr.isatty()
    if not progress:
        yield None
        return
    from tqdm.auto import tqdm

    with tqdm(unit=unit) as bar:

        def report(done: int, total: int, doing: str = "", left: float | None = None) -> None:
            if doing:
                bar.set_description(doing, refresh=False)
            bar.total = total
            bar.update(done - bar.n)

        yield report
