"""The vectors of texts that are being read, on disk until it is known how to store them."""

import os
import tempfile
import threading
from pathlib import Path
from typing import IO

import numpy as np

from ..errors import KvsimError

ROWS_AT_ONCE = 128  # of each head: what waits in memory while a model generates token by token

# The types that vectors are kept in, each with the numpy type of its bits.
FORMS = {"float32": np.float32, "float16": np.float16, "bfloat16": np.uint16}


class Spool:
    """A file without a name, in the folder of the trace: no process leaves it there.

    Threads may write at the same time. A file is written by one at a time, so that each takes one
    of several `lane`s.
    """

    def __init__(self, trace: Path) -> None:
        self._trace = trace
        self._file: IO[bytes] | None = None  # until something is written
        self._size = 0
        self._lock = threading.Lock()
        self._lanes: dict[int, Spool] = {}

    def lane(self, number: int) -> "Spool":
        """Another file for each number from 1 on, which `clear` forgets, too; 0 is this one."""
        return self._lanes.setdefault(number, Spool(self._trace)) if number else self

    def write(self, numbers: np.ndarray) -> int:
        """Appends the numbers. Returns where they begin. Raises KvsimError."""
        left = memoryview(np.ascontiguousarray(numbers)).cast("B")
        try:
            with self._lock:
                if self._file is None:
                    self._file = tempfile.TemporaryFile(dir=self._trace.parent)  # noqa: SIM115
                start = at = self._size
                self._size += len(left)
            while left:
                written = os.pwrite(self._file.fileno(), left, at)
                at += written
                left = left[written:]
        except OSError as error:
            raise self._refused(error, "cannot be written") from error
        return start

    def read(self, start: int, rows: np.ndarray) -> None:
        """Fills `rows`, which must be contiguous, with what is there. Raises KvsimError."""
        view = memoryview(rows).cast("B")
        while view:
            try:
                count = os.preadv(self._file.fileno(), [view], start)
            except OSError as error:
                raise self._refused(
                    error, "its vectors in a temporary file cannot be read"
                ) from error
            if not count:
                raise KvsimError(f"{self._trace}: its vectors in a temporary file end early")
            start, view = start + count, view[count:]

    def clear(self) -> None:
        """Forgets everything."""
        if self._file is not None:
            self._file.close()
        self._file, self._size = None, 0
        for lane in self._lanes.values():
            lane.clear()

    def _refused(self, error: OSError, what: str) -> KvsimError:
        return KvsimError(f"{self._trace}: {what}: {error.strerror or error}")


class SpooledLists:
    """Lists of int32, one after the other."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._lengths: list[int] = []
        self._blocks: list[tuple[int, int]] = []  # where each begins, and its numbers

    def __len__(self) -> int:
        return len(self._lengths)

    def extend(self, lists: list[np.ndarray]) -> None:
        numbers = np.concatenate([np.empty(0, np.int32), *lists])
        self._lengths += map(len, lists)
        if len(numbers):
            self._blocks.append((self._spool.write(numbers), len(numbers)))

    def read(self) -> list[np.ndarray]:
        """All of them."""
        numbers = np.empty(sum(self._lengths), np.int32)
        begin = 0
        for start, count in self._blocks:
            self._spool.read(start, numbers[begin : begin + count])
            begin += count
        return np.split(numbers, np.cumsum(self._lengths)[:-1])


class SpooledRows:
    """Vectors [heads, n, dim] of a layer whose n grows, in one of FORMS."""

    def __init__(
        self, spool: Spool, heads: int, dim: int, itemsize: int, form: str = "float32"
    ) -> None:
        self.heads, self.dim = heads, dim
        self.itemsize = itemsize  # of a number as the model computed it
        self.form = form
        self.largest = 0.0  # of all numbers, without sign
        self.rows = 0
        self._spool = spool
        self._blocks: list[tuple[int, int]] = []  # where each begins, and its rows
        self._waiting: list[np.ndarray] = []

    def append(self, rows: np.ndarray) -> None:
        """Adds rows [heads, m, dim] of the numpy type of the form."""
        if not rows.size:
            return
        self.largest = float(np.max([self.largest, _largest(rows, self.form)]))  # NaN if one is
        self.rows += rows.shape[1]
        self._waiting.append(rows)
        if sum(each.shape[1] for each in self._waiting) >= ROWS_AT_ONCE:
            self.flush()
        else:
            self._waiting[-1] = rows.copy()  # the model may compute the next in its memory

    def flush(self) -> None:
        """Writes what waits, before rows are read: threads may read at the same time."""
        if self._waiting:
            several = len(self._waiting) > 1
            block = np.concatenate(self._waiting, axis=1) if several else self._waiting[0]
            self._blocks.append((self._spool.write(block), block.shape[1]))
            self._waiting = []

    def part(self, head: int, first: int, end: int, kind: type | str = np.float32) -> np.ndarray:
        """The rows first .. end - 1 of a head in this numpy type, [end - first, dim]."""
        part = np.empty((end - first, self.dim), FORMS[self.form])
        row_bytes = self.dim * part.itemsize
        begin = 0  # of the block
        for start, count in self._blocks:
            low, high = max(first, begin), min(end, begin + count)
            if low < high:
                row = head * count + low - begin
                self._spool.read(start + row * row_bytes, part[low - first : high - first])
            begin += count
        return _numbers(part, self.form).astype(kind, copy=False)

    def head(self, head: int) -> np.ndarray:
        """All rows of a head, [n, dim]."""
        return self.part(head, 0, self.rows)


def _numbers(bits: np.ndarray, form: str) -> np.ndarray:
    """The numbers, of a type that numpy computes with."""
    return (bits.astype(np.uint32) << 16).view(np.float32) if form == "bfloat16" else bits


def _largest(rows: np.ndarray, form: str) -> float:
    """The largest number without sign; NaN if one is."""
    if form == "float32":
        return float(np.max([rows.max(), -rows.min()]))
    # The bits of numbers of one sign are ordered as these are, NaN last, and compared faster.
    ends = np.array([rows.view(np.uint16).max(), max(rows.view(np.int16).max(), 0)], np.uint16)
    return float(np.abs(_numbers(ends.view(FORMS[form]), form)).max())
