"""Writes a trace while it grows. traces/README.md defines the format."""

import itertools
import os
import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from types import TracebackType

import h5py
import numpy as np

from .._engine import Digest, PartialFile, Trace, default_threads, seal_trace
from ..errors import KvsimError, UsageError
from ..files.paths import is_file
from ..trace.spans import Span
from .lost_errors import LostErrors
from .packing import GZIP, NONE, Packing, create_chunked, write_chunks
from .spool import Spool, SpooledRows
from .unpacked import create_unpacked, write_unpacked

MOST_ROWS_PER_CHUNK = 1024
FEWEST_ROWS_PER_CHUNK = 64
BYTES_PER_CHUNK = 1 << 16

# Of HDF5 1.10: object headers and indexes of chunks have checksums.
FILE_FORMAT = ("v110", "v110")

Attribute = int | float | str
_REFUSED = re.compile(r"errno = \d+, error message = '([^']*)'")


def rows_per_chunk(row_bytes: int, rows: int = MOST_ROWS_PER_CHUNK) -> int:
    """Of a dataset of so many rows, or of an unknown number."""
    wanted = min(max(BYTES_PER_CHUNK // row_bytes, FEWEST_ROWS_PER_CHUNK), MOST_ROWS_PER_CHUNK)
    return min(wanted, rows)


class TraceFile:
    """A trace under a temporary name. `commit` renames it; leaving without `commit` removes it.

    `threads`: that pack at a time; by default as many as `default_threads`. `compression`: one of
    COMPRESSIONS.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        threads: int | None = None,
        compression: str = GZIP,
    ) -> None:
        self.path = Path(path)
        self.threads = threads or default_threads()
        self.packing = Packing(compression, self.threads)
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

    def take_spool(self) -> Spool:
        """The spool so far, for the caller to clear. Another one takes what follows."""
        spool, self.spool = self.spool, Spool(self.path)
        return spool

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
        if self.packing.compression == NONE:
            dataset = create_unpacked(group, path, shape, dtype, chunk)
            digests = self._write_unpacked(dataset, rows)
        else:
            dataset = create_chunked(group, path, shape, dtype, chunk, self.packing.compression)
            digests = self._write_packed(dataset, rows)
        # Of what was to be stored: sealing would read it all.
        dataset.attrs.create("digests", np.array(digests, "<u8"))

    def _write_unpacked(self, dataset: h5py.Dataset, rows: SpooledRows) -> list[int]:
        part = partial(rows.part, kind=dataset.dtype)
        try:
            return write_unpacked(dataset, part, self._partial.path, self.threads)
        except OSError as error:  # of reading, a spool makes another one
            reason = error.strerror or error
            raise KvsimError(f"{self.path}: cannot be written: {reason}") from error

    def _write_packed(self, dataset: h5py.Dataset, rows: SpooledRows) -> list[int]:
        at_once = dataset.chunks[1]

        def part(head: int, first: int) -> np.ndarray:
            return rows.part(head, first, min(first + at_once, rows.rows), dataset.dtype)[None]

        parts = (
            ((head, first, 0), partial(part, head, first))
            for head in range(rows.heads)
            for first in range(0, rows.rows, at_once)
        )
        digests = [Digest() for _ in range(rows.heads)]

        def see(start: tuple[int, ...], numbers: np.ndarray) -> None:
            digests[start[0]].update(numbers.reshape(-1).view(np.uint8))

        write_chunks(dataset, parts, self.threads, see)
        return [digest.value() for digest in digests]

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

    def refusal(self, error: BaseException | None) -> str | None:
        """What the system refused, in one line, if HDF5 says it in the midst of its own."""
        refused = _REFUSED.search(str(error))
        return f"{self.path}: cannot be written: {refused[1]}" if refused else None

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
        if refusal := self.refusal(error):
            raise KvsimError(refusal) from error
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
