"""Writes vectors as they are: threads write each head where HDF5 has left room for it."""

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np

from .._engine import Digest
from ..errors import KvsimError

BYTES_AT_ONCE = 1 << 22  # of a head, read and written by a thread

# The rows first .. end - 1 of a head, [end - first, dim] of the dataset's type.
Part = Callable[[int, int, int], np.ndarray]


def create_unpacked(
    group: h5py.Group, path: str, shape: tuple[int, ...], dtype: np.dtype, chunks: tuple[int, ...]
) -> h5py.Dataset:
    """A dataset whose chunks have their places, one after the other, and hold anything."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    return group.create_dataset(
        path, shape, dtype, chunks=chunks, track_times=False, dcpl=properties
    )


def write_unpacked(
    dataset: h5py.Dataset, part: Part, file: str | os.PathLike[str], threads: int
) -> list[int]:
    """Writes all rows of a dataset [heads, n, dim] in `file`. Returns the digest of each head.

    A chunk is one of a head. Raises OSError if the file cannot be written, what `part` raises, and
    KvsimError if the chunks of a head do not follow each other.
    """
    heads, rows, dim = dataset.shape
    _, of_chunk, _ = dataset.chunks
    row_bytes = dim * dataset.dtype.itemsize
    at_once = max(BYTES_AT_ONCE // (of_chunk * row_bytes), 1) * of_chunk
    places = [_place(dataset, head) for head in range(heads)]
    opened = os.open(file, os.O_WRONLY)

    def write(head: int) -> int:
        digest = Digest()
        for first in range(0, rows, at_once):
            numbers = np.ascontiguousarray(part(head, first, min(first + at_once, rows)))
            own = numbers.reshape(-1).view(np.uint8)
            digest.update(own)
            at = places[head] + first * row_bytes
            _write(opened, own, at)
            beyond = -len(numbers) % of_chunk  # of the dataset, which is never read
            _write(opened, np.zeros(beyond * row_bytes, np.uint8), at + len(own))
        return digest.value()

    try:
        with ThreadPoolExecutor(threads) as pool:
            try:
                return list(pool.map(write, range(heads)))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    finally:
        os.close(opened)


def _place(dataset: h5py.Dataset, head: int) -> int:
    """Where the head begins in the file.

    HDF5 gives the chunks their places in one go, in their order, at the end of the file. It does
    so today, but promises it nowhere.
    """
    _, rows, _ = dataset.shape
    chunk = dataset.chunks
    last = (rows - 1) // chunk[1]
    at, end = (
        dataset.id.get_chunk_info_by_coord((head, number * chunk[1], 0)).byte_offset
        for number in (0, last)
    )
    expected = at + last * math.prod(chunk) * dataset.dtype.itemsize
    if end != expected:
        raise KvsimError(
            f"{dataset.name}: expected the last chunk of head {head} at byte {expected}, where the "
            f"others end, found {end}; this HDF5 scatters chunks: use --compression gzip"
        )
    return at


def _write(file: int, numbers: np.ndarray, at: int) -> None:
    left = memoryview(numbers)
    while left:
        written = os.pwrite(file, left, at)
        at, left = at + written, left[written:]
