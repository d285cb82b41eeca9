"""Writes datasets in chunks that threads pack, or as they are: HDF5 itself packs one at a time."""

import itertools
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import h5py
import numpy as np

from .._engine import default_threads, pack_chunk

CHUNKS_AT_ONCE = 4  # of a thread, in memory: what it packs, and what waits to be written
GZIP_LEVEL = 4  # of pack_chunk, which the dataset notes: traces/README.md
GZIP, NONE = "gzip", "none"
COMPRESSIONS = (GZIP, NONE)

# The index of the first number of a chunk, and what returns its numbers.
Chunk = tuple[tuple[int, ...], Callable[[], np.ndarray]]
Packed = tuple[np.ndarray, bytes | np.ndarray]  # the numbers of a chunk, and its bytes in the file


@dataclass(frozen=True)
class Packing:
    """How the chunks of a trace are stored, and by how many threads; None: `default_threads`."""

    compression: str = GZIP  # one of COMPRESSIONS
    threads: int | None = None


def create_chunked(
    group: h5py.Group,
    path: str,
    shape: tuple[int, ...],
    dtype: np.dtype,
    chunks: tuple[int, ...],
    compression: str,
) -> h5py.Dataset:
    """A dataset in chunks for write_chunks(), which packs them unless `compression` is NONE."""
    filters = {}
    if compression == GZIP:
        filters = {"shuffle": True, "compression": GZIP, "compression_opts": GZIP_LEVEL}
    return group.create_dataset(path, shape, dtype, chunks=chunks, track_times=False, **filters)


def write_chunked(
    group: h5py.Group,
    path: str,
    numbers: np.ndarray,
    chunks: tuple[int, ...],
    packing: Packing,
) -> h5py.Dataset:
    dataset = create_chunked(group, path, numbers.shape, numbers.dtype, chunks, packing.compression)
    starts = itertools.product(*map(range, itertools.repeat(0), numbers.shape, chunks))
    places = (
        (start, tuple(slice(i, i + size) for i, size in zip(start, chunks))) for start in starts
    )
    parts = ((start, partial(numbers.__getitem__, place)) for start, place in places)
    write_chunks(dataset, parts, packing.threads)
    return dataset


def write_chunks(
    dataset: h5py.Dataset,
    chunks: Iterable[Chunk],
    threads: int | None,
    see: Callable[[tuple[int, ...], np.ndarray], None] = lambda *_: None,
) -> None:
    """Writes chunks, packed if the dataset says so, in their order, in which `see` gets them, too.

    The bytes are the same for any number of threads, which read and pack; None: as many as
    `default_threads`.
    """
    whole, is_packed = dataset.chunks, dataset.compression is not None
    threads = threads or default_threads()

    def packed(numbers_of: Callable[[], np.ndarray]) -> Packed:
        numbers = padded = np.ascontiguousarray(numbers_of())
        if numbers.shape != whole:  # at an end of the dataset; what is beyond it is never read
            missing = zip(numbers.shape, whole)
            padded = np.pad(numbers, [(0, size - there) for there, size in missing])
        data = padded.reshape(-1).view(np.uint8)
        return numbers, pack_chunk(data, numbers.itemsize) if is_packed else data

    waiting: deque[tuple[tuple[int, ...], Future[Packed]]] = deque()

    def write_first() -> None:
        start, future = waiting.popleft()
        numbers, data = future.result()
        see(start, numbers)
        dataset.id.write_direct_chunk(start, data)

    with ThreadPoolExecutor(threads) as pool:
        try:
            for start, numbers_of in chunks:
                waiting.append((start, pool.submit(packed, numbers_of)))
                if len(waiting) == CHUNKS_AT_ONCE * threads:
                    write_first()
            while waiting:
                write_first()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
