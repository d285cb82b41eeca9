"""A file of labels, which appears under its name when it is complete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import KvsimError, UsageError
from ..files.outputs import replaceable
from ..files.partial import written_whole
from ..files.paths import reason_of
from .npz import NpzFile
from .parquet import ParquetFile
from .units import Labelling

_FORMATS = {".npz": NpzFile, ".parquet": ParquetFile}


def check_output(path: str | os.PathLike[str]) -> Path:
    """The path, if labels may be written there. Raises UsageError.

    An earlier file of labels is replaced, and nothing else of that name.
    """
    path = Path(path)
    if path.suffix not in _FORMATS:
        raise UsageError(f"--output: expected a file .npz or .parquet, found {path}")
    return replaceable(path, "--output", "labels", _FORMATS[path.suffix].holds_labels)


@contextmanager
def written(path: Path, labelling: Labelling) -> Iterator[NpzFile | ParquetFile]:
    """The file to add units to. On an exception nothing is left, and an earlier file stays."""
    try:
        with written_whole(path) as partial:
            file = _FORMATS[path.suffix](partial, labelling)
            try:
                yield file
            finally:
                file.close()
    except OSError as error:
        raise KvsimError(f"{path}: cannot be written: {reason_of(error)}") from error
