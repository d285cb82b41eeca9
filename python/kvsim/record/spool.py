"""The vectors of texts that are being read, on disk until it is known how to store them."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from ..errors import KvsimError

ROWS_AT_ONCE = 128  # of each head: what waits in memory while a model generates token by token


class Spool:
    """A file without a name, in the folder of the trace: no process leaves it there."""

    def __init__(self, trace: Path) -> None:
        self._trace = trace
        self._file: IO[bytes] | None = None  # until something is written
        self._size = 0

    def write(self, numbers: np.ndarray) -> int:
        """Appends the numbers. Returns where they begin. Raises KvsimError."""
        start = self._size
        left = memoryview(np.ascontiguousarray(numbers)).cast("B")
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._trace.parent)  # noqa: SIM115
            while left:
                written = os.pwrite(self._file.fileno(), left, self._size)
                self._size += written
                left = left[written:]
        except OSError as error:
            raise self._refused(error) from error
        return start

    def read(self, start: int, rows: np.ndarray) -> None:
        """Fills `rows`, which must be contiguous, with what was written there."""
        view = memoryview(rows).cast("B")
        while view:
            count = os.preadv(self._file.fileno(), [view], start)
            if not count:
                raise KvsimError(f"{self._trace}: its vectors in a temporary file end early")
            start, view = start + count, view[count:]

    def clear(self) -> None:
        """Forgets everything."""
        if self._file is not None:
            self._file.close()
        self._file, self._size = None, 0

    def _refused(self, error: OSError) -> KvsimError:
        return KvsimError(f"{self._trace}: cannot be written: {error.strerror}")


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
    """Vectors [heads, n, dim] of a layer whose n grows, as float32."""

    def __init__(self, spool: Spool, heads: int, dim: int, itemsize: int) -> None:
        self.heads, self.dim = heads, dim
        self.itemsize = itemsize  # of a number as the model computed it
        self.largest = 0.0  # of all numbers, without sign
        self.rows = 0
        self._spool = spool
        self._blocks: list[tuple[int, int]] = []  # where each begins, and its rows
        self._waiting: list[np.ndarray] = []

    def append(self, rows: np.ndarray) -> None:
        """Adds float32 rows [heads, m, dim]."""
        if not rows.size:
            return
        self.largest = float(np.max([self.largest, rows.max(), -rows.min()]))  # NaN if one is
        self.rows += rows.shape[1]
        self._waiting.append(rows)
        if sum(each.shape[1] for each in self._waiting) >= ROWS_AT_ONCE:
            self.flush()
        else:
            self._waiting[-1] = rows.copy()  # the model may compute the next in its memory

    def flush(self) -> None:
        """Writes what waits, before rows are read: threads may read at the same time."""
        if self._waiting:
            block = np.concatenate(self._waiting, axis=1)
            self._blocks.append((self._spool.write(block), block.shape[1]))
            self._waiting = []

    def parts(self, head: int, size: int) -> Iterator[np.ndarray]:
        """The rows of a head in their order, [size, dim] at a time, the last part maybe less."""
        for first in range(0, self.rows, size):
            end = min(first + size, self.rows)
            part = np.empty((end - first, self.dim), np.float32)
            begin = 0  # of the block
            for start, count in self._blocks:
                low, high = max(first, begin), min(end, begin + count)
                if low < high:
                    row = head * count + low - begin
                    self._spool.read(start + row * self.dim * 4, part[low - first : high - first])
                begin += count
            yield part

    def head(self, head: int) -> np.ndarray:
        """All rows of a head, [n, dim]."""
        return next(self.parts(head, self.rows))
