"""A file of labels, which appears under its name when it is complete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import KvsimError, UsageError
from .npz import NpzFile
from .parquet import ParquetFile
from .units import Labelling

_FORMATS = {".npz": NpzFile, ".parquet": ParquetFile}


def check_output(path: str | os.PathLike[str]) -> Path:
    """The path, if labels may be written there. Raises UsageError.

    An earlier file of labels is replaced; anything else of that name may be valuable.
    """
    path = Path(path)
    if path.suffix not in _FORMATS:
        raise UsageError(f"--output: expected a file .npz or .parquet, found {path}")
    if path.exists() and not path.is_file():
        raise UsageError(f"--output: {path}: there is something else of that name")
    if not path.exists() or path.stat().st_size == 0:
        return path
    if not _FORMATS[path.suffix].holds_labels(path):
        raise UsageError(
            f"--output: {path}: there is a file of that name that holds no labels; remove it "
            "first, or name another"
        )
    return path


@contextmanager
def written(path: Path, labelling: Labelling) -> Iterator[NpzFile | ParquetFile]:
    """The file to add units to. On an exception nothing is left, and an earlier file stays."""
    partial = Path(f"{path}.partial")
    try:
        file = _FORMATS[path.suffix](partial, labelling)
        try:
            yield file
        finally:
            file.close()
        partial.replace(path)
    except OSError as error:
        raise KvsimError(
            f"--output: {path}: cannot be written: {error.strerror or error}"
        ) from error
    finally:
        partial.unlink(missing_ok=True)
