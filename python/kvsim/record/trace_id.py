"""The trace_id, a digest of all numbers of a trace. traces/README.md defines it."""

import hashlib
from collections.abc import Iterator

import h5py
import numpy as np

ROWS_AT_ONCE = 1024


def trace_id(file: h5py.File) -> str:
    """The SHA-256 over the lines `PATH DIGEST` of all datasets, sorted by path.

    It reads at most ROWS_AT_ONCE rows of one head at a time.
    """
    digests: dict[str, str] = {}

    def visit(name: str, item: h5py.Group | h5py.Dataset) -> None:
        if isinstance(item, h5py.Dataset):
            digests["/" + name] = _digest(item)

    file.visititems(visit)
    lines = "".join(f"{path} {digests[path]}\n" for path in sorted(digests, key=str.encode))
    return hashlib.sha256(lines.encode()).hexdigest()


def _digest(dataset: h5py.Dataset) -> str:
    digest = hashlib.sha256()
    for block in _blocks(dataset):
        if h5py.check_string_dtype(dataset.dtype):
            for text in block.ravel():
                digest.update((text if isinstance(text, bytes) else text.encode()) + b"\0")
        else:
            little = block.astype(block.dtype.newbyteorder("<"), copy=False)
            digest.update(np.ascontiguousarray(little).tobytes())
    return digest.hexdigest()


def _blocks(dataset: h5py.Dataset) -> Iterator[np.ndarray]:
    """The elements in row-major order, in pieces that fit in memory."""
    if dataset.ndim == 0:
        yield np.asarray(dataset[()])
    elif dataset.ndim == 1:
        for start in range(0, dataset.shape[0], ROWS_AT_ONCE):
            yield dataset[start : start + ROWS_AT_ONCE]
    else:
        for first in range(dataset.shape[0]):
            for start in range(0, dataset.shape[1], ROWS_AT_ONCE):
                yield dataset[first, start : start + ROWS_AT_ONCE]
