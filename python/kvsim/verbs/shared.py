"""What the functions that are verbs of the program share."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..errors import UsageError
from .options import Options, engine_options


def options_without(names: Sequence[str], options: Options) -> dict[str, object]:
    """The options as the engine takes them. Raises UsageError for those that the verb lacks."""
    for name in names:
        if name in options:
            raise UsageError(f"there is no option {name} here; leave it out")
    return engine_options(options)


def file_name(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.fspath(path)
