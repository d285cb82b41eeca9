"""What stands under a name, False where the file system refuses the name.

pathlib raises OSError for a name that is too long; opening the file says so in one line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path


def exists(path: str | os.PathLike[str]) -> bool:
    return _asked(Path.exists, path)


def is_file(path: str | os.PathLike[str]) -> bool:
    return _asked(Path.is_file, path)


def is_folder(path: str | os.PathLike[str]) -> bool:
    return _asked(Path.is_dir, path)


def reason_of(error: OSError) -> str:
    """What the system said; pyarrow hides it in its message."""
    number = error.errno or next(iter(re.findall(r"\[errno (\d+)\]", str(error))), None)
    return os.strerror(int(number)) if number else str(error)


def _asked(question: Callable[[Path], bool], path: str | os.PathLike[str]) -> bool:
    try:
        return question(Path(path))
    except OSError:
        return False
