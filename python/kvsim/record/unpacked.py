"""Writes vectors as they are: threads write each head where HDF5 has left room for it."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np

from .._engine import Digest

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

    A chunk is one of a head, so that those of a head follow each other. Raises OSError.
    """
    heads, rows, dim = dataset.shape
    _, of_chunk, _ = dataset.chunks
    row_bytes = dim * dataset.dtype.itemsize
    at_once = max(BYTES_AT_ONCE // (of_chunk * row_bytes), 1) * of_chunk
    places = [dataset.id.get_chunk_info_by_coord((h, 0, 0)).byte_offset for h in range(heads)]
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


def _write(file: int, numbers: np.ndarray, at: int) -> None:
    left = memoryview(numbers)
    while left:
        written = os.pwrite(file, left, at)
        at, left = at + written, left[written:]
