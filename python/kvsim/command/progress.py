"""Progress of a command on standard error, as the program shows it."""

from __future__ import annotations

import math
import sys
import time

from ..errors.terminal import printable, say

BAR_WIDTH = 24
REDRAW = 0.1  # seconds between two states of a bar
NEXT_TENTH = 1  # seconds from one line to that of a further tenth
NEXT_STAGE = 10  # to that of another stage before the next row
NEXT_LINE = 60  # to any other


class Shown:
    """Shows how far work is: on a terminal as a bar, otherwise in lines.

    A line appears at the start and the end, at most each second for a further tenth of the rows,
    at most each 10 seconds for another stage before the next row, and each minute in any case.
    """

    def __init__(self, what: str, is_terminal: bool | None = None) -> None:
        """`what` is counted, as in "40 of 64 rows"."""
        self._what = what
        self._is_terminal = sys.stderr.isatty() if is_terminal is None else is_terminal
        self._at: float | None = None  # when it was shown; None: never
        self._done, self._tenth, self._doing = 0, 0, ""  # what was shown then
        self._width = 0  # of the bar's line; 0: there is none

    def __call__(self, done: int, total: int, doing: str, seconds_left: float | None) -> None:
        """So many are done, and what is being done; None: the time that is left is unknown."""
        now, tenth = time.monotonic(), 10 * done // total
        next_stage = done == self._done and doing != self._doing
        if done > self._done if done == total else self._is_due(now, tenth, next_stage):
            self._show(done, total, doing, seconds_left)
            self._at, self._done, self._tenth, self._doing = now, done, tenth, doing

    def close(self) -> None:
        """Ends the line of a bar."""
        if self._width:
            print(file=sys.stderr, flush=True)

    def _is_due(self, now: float, tenth: int, next_stage: bool) -> bool:
        if self._at is None:
            return True
        since = now - self._at
        if self._is_terminal:
            return since >= REDRAW
        return (
            since >= NEXT_LINE
            or (since >= NEXT_TENTH and tenth > self._tenth)
            or (since >= NEXT_STAGE and next_stage)
        )

    def _show(self, done: int, total: int, doing: str, seconds_left: float | None) -> None:
        line = f"{done} of {total} {self._what}"
        if done < total:
            line += f", {doing}"
            if seconds_left is not None:
                line += f", {time_left(seconds_left)}"
        if not self._is_terminal:
            say(f"kvsim: {line}")
            return
        filled = "=" * (BAR_WIDTH * done // total)
        line = printable(f"kvsim: [{filled:{BAR_WIDTH}}] {line}")
        # Blanks cover what is left of a longer line.
        print(f"\r{line:{self._width}}", end="", file=sys.stderr, flush=True)
        self._width = max(self._width, len(line))


def time_left(seconds: float) -> str:
    """As in "about 3 min left"."""
    if seconds < 90:
        return f"about {math.ceil(seconds)} s left"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"about {minutes} min left"
    return f"about {minutes // 60} h {minutes % 60} min left"
