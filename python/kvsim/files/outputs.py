"""Which files an output may replace."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ..errors import UsageError
from .paths import exists


def replaceable(
    path: str | os.PathLike[str], option: str, contents: str, holds: Callable[[Path], bool]
) -> Path:
    """The path, if an output may be written there. Raises UsageError, which begins with `option`.

    An earlier file that `holds` such `contents`, or nothing, is replaced; anything else of that
    name may be valuable.
    """
    path = Path(path)
    if exists(path) and not path.is_file():
        raise UsageError(f"{option}: {path}: there is something else of that name")
    if exists(path) and path.stat().st_size > 0 and not holds(path):
        raise UsageError(
            f"{option}: {path}: there is a file of that name that holds no {contents}; remove it "
            "first, or name another"
        )
    return path
