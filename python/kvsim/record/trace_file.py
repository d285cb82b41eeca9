"""Writes a trace while it grows. traces/README.md defines the format."""

import itertools
import os
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

import h5py
import numpy as np

from .._engine import PartialFile, Trace, pack_chunk, seal_trace
from ..errors import KvsimError, UsageError
from ..files.paths import is_file
from ..trace.spans import Span
from .lost_errors import LostErrors
from .spool import Spool, SpooledRows

MOST_ROWS_PER_CHUNK = 1024
FEWEST_ROWS_PER_CHUNK = 64
BYTES_PER_CHUNK = 1 << 16
CHUNKS_AT_ONCE = 64  # in memory, while threads pack them
GZIP_LEVEL = 4  # of pack_chunk, which the dataset notes: traces/README.md

# Of HDF5 1.10: object headers and indexes of chunks have checksums.
FILE_FORMAT = ("v110", "v110")

Attribute = int | float | str
_REFUSED = re.compile(r"errno = \d+, error message = '([^']*)'")


def rows_per_chunk(row_bytes: int, rows: int = MOST_ROWS_PER_CHUNK) -> int:
    """Of a dataset of so many rows, or of an unknown number."""
    wanted = min(max(BYTES_PER_CHUNK // row_bytes, FEWEST_ROWS_PER_CHUNK), MOST_ROWS_PER_CHUNK)
    return min(wanted, rows)


def create_packed(
    group: h5py.Group, path: str, shape: tuple[int, ...], dtype: np.dtype, chunks: tuple[int, ...]
) -> h5py.Dataset:
    """A dataset in chunks that are packed, for all of it to be written."""
    return group.create_dataset(
        path, shape, dtype, chunks=chunks, shuffle=True, compression="gzip",
        compression_opts=GZIP_LEVEL, track_times=False,
    )  # fmt: skip


def write_packed(
    group: h5py.Group, path: str, numbers: np.ndarray, chunks: tuple[int, ...]
) -> h5py.Dataset:
    dataset = create_packed(group, path, numbers.shape, numbers.dtype, chunks)
    starts = itertools.product(*map(range, itertools.repeat(0), numbers.shape, chunks))
    places = (
        (start, tuple(slice(i, i + size) for i, size in zip(start, chunks))) for start in starts
    )
    write_chunks(dataset, ((start, numbers[place]) for start, place in places))
    return dataset


def write_chunks(
    dataset: h5py.Dataset, chunks: Iterable[tuple[tuple[int, ...], np.ndarray]]
) -> None:
    """Writes chunks, each with the index of its first number, packed as the dataset says.

    HDF5 packs one at a time, which would take most of the time of a recording that is not the
    model's.
    """
    whole = dataset.chunks

    def packed(chunk: tuple[tuple[int, ...], np.ndarray]) -> tuple[tuple[int, ...], bytes]:
        start, numbers = chunk
        if numbers.shape != whole:  # at an end of the dataset; what is beyond it is never read
            missing = zip(numbers.shape, whole)
            numbers = np.pad(numbers, [(0, size - there) for there, size in missing])
        plain = np.ascontiguousarray(numbers).reshape(-1).view(np.uint8)
        return start, pack_chunk(plain, numbers.itemsize)

    chunks = iter(chunks)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        while some := list(itertools.islice(chunks, CHUNKS_AT_ONCE)):
            for start, data in pool.map(packed, some):
                dataset.id.write_direct_chunk(start, data)


class TraceFile:
    """A trace under a temporary name. `commit` renames it; leaving without `commit` removes it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        _require_replaceable(self.path)
        try:
            self._partial = PartialFile(os.fspath(self.path))
        except KvsimError as error:
            raise UsageError(str(error)) from error
        # Chunks are written whole, so HDF5 needs no chunk cache per dataset. Nobody else knows the
        # name, so there is nothing to lock.
        try:
            self.h5 = h5py.File(
                self._partial.path, "w", rdcc_nbytes=0, locking=False, libver=FILE_FORMAT
            )
        except OSError as error:
            self._partial.discard()
            reason = os.strerror(error.errno) if error.errno else str(error).splitlines()[0]
            raise UsageError(f"{self.path}: cannot be written: {reason}") from error
        self._lost = LostErrors()
        self.h5.create_group("sequences")
        self.spool = Spool(self.path)

    def write_attributes(self, path: str, attributes: dict[str, Attribute]) -> None:
        """Writes numbers with 64 bits and strings as UTF-8 of fixed length."""
        for name, value in attributes.items():
            if isinstance(value, str):
                text = value.encode("utf-8", "replace")
                type_ = h5py.string_dtype("utf-8", max(len(text), 1))
                self.h5[path].attrs.create(name, np.array(text, type_), dtype=type_)
            else:
                self.h5[path].attrs.create(name, np.asarray(value))

    def write_heads(self, group: h5py.Group, path: str, rows: SpooledRows, kind: str) -> None:
        """Writes vectors [heads, n, dim] in this type, a chunk at a time."""
        dtype = np.dtype(kind)
        chunk = (1, rows_per_chunk(rows.dim * dtype.itemsize, rows.rows), rows.dim)
        shape = (rows.heads, rows.rows, rows.dim)
        dataset = create_packed(group, path, shape, dtype, chunk)
        parts = (
            ((head, i * chunk[1], 0), part.astype(dtype)[None])
            for head in range(rows.heads)
            for i, part in enumerate(rows.parts(head, chunk[1]))
        )
        write_chunks(dataset, parts)

    def write_list(self, path: str, numbers: np.ndarray) -> None:
        self.h5.create_dataset(path, data=numbers, track_times=False)

    def write_texts(self, path: str, texts: list[str]) -> None:
        """Writes UTF-8 strings: all bytes, and where each begins and the last one ends.

        U+2400 replaces U+0000, at which many readers end a string.
        """
        clean = [text.replace("\0", "\u2400").encode("utf-8", "replace") for text in texts]
        offsets = list(itertools.accumulate(map(len, clean), initial=0))
        self.write_list(path, np.frombuffer(b"".join(clean), np.uint8))
        self.write_list(f"{path}_offsets", np.array(offsets, np.int64))

    def write_spans(self, path: str, spans: Iterable[Span]) -> None:
        """Writes labelled parts of a sequence: the tokens in `start` and `end`, half open."""
        starts, ends, labels = zip(*spans, strict=True)
        self.write_list(f"{path}/start", np.array(starts, np.int32))
        self.write_list(f"{path}/end", np.array(ends, np.int32))
        self.write_texts(f"{path}/label", list(labels))

    def commit(self) -> None:
        """Writes digests, manifest and trace_id, and renames the file to its final name."""
        self._seal()
        self._partial.commit()

    def commit_unfinished(self) -> Path:
        """The same, under a name that is returned: that of the trace stands for a whole one."""
        path = self.path.with_name(f"{self.path.stem}.unfinished{self.path.suffix}")
        _require_replaceable(path)
        self._seal()
        partial = PartialFile(os.fspath(path))
        try:
            Path(self._partial.path).replace(partial.path)
            partial.commit()
        finally:
            partial.discard()
        return path

    def _seal(self) -> None:
        self.h5.close()
        if self._lost.messages:
            raise OSError(self._lost.messages[0])
        seal_trace(self._partial.path)

    def __enter__(self) -> "TraceFile":
        self._lost.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.h5.close()
        except (OSError, RuntimeError) as failed:
            error = error or failed
        finally:
            self._lost.__exit__(kind, error, trace)
            self._partial.discard()
            self.spool.clear()
        # HDF5 says what the system refused in the midst of what it was about.
        refused = _REFUSED.search(str(error))
        if refused:
            raise KvsimError(f"{self.path}: cannot be written: {refused[1]}") from error
        if error is not None and kind is None:
            raise error


def _require_replaceable(path: Path) -> None:
    if is_file(path) and not _may_be_replaced(path):
        raise UsageError(
            f"{path}: there is a file of that name that is no trace, or damaged; remove it first, "
            "or name another"
        )


def _may_be_replaced(path: Path) -> bool:
    """Whether the file is empty or a trace. Any other file may be the input or valuable."""
    if path.stat().st_size == 0:
        return True
    try:
        Trace(os.fspath(path))
    except KvsimError:
        return False
    return True
