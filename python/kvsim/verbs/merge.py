"""Joins result files, as those of shards."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import DataError
from .options import warn_of
from .progress import Progress, reporter

if TYPE_CHECKING:
    import pandas as pd


def merge(
    parts: str | Path | Sequence[str | Path],
    output: str | Path,
    *,
    complete: bool = False,
    progress: Progress = None,
    scratch: str | Path | None = None,
) -> pd.DataFrame:
    """Joins all tables of result files in `output`, as `kvsim merge` does.

    >>> kvsim.merge(sorted(Path("parts").glob("*.sqlite")), "all.sqlite")

    Arguments:
      parts: result files. One that is `output` itself, or is named twice, counts once.
      output: the result file (SQLite); what it holds already takes part.
      complete: raises DataError if shards are missing or unfinished; the rest is in `output`.
      progress: as for kvsim.sweep, in parts.
      scratch: a folder on a local disk in which `output` is written, as for kvsim.sweep.

    Rows with the same key must be equal, but for `run_id` and `trace`, and are kept once.

    Returns a frame with a row per table: `table`, `rows`, and `new`, those that `output` did not
    have.

    Raises UsageError without parts; DataError for rows, tables or codes of policies that do not fit
    together, with the names of both files, and for a part that is missing or no result file;
    KeyboardInterrupt at Ctrl-C. `output` is then as it was. Issues KvsimWarning for the shards that
    are missing or unfinished.
    """
    import pandas as pd

    from .. import _engine

    files = [parts] if isinstance(parts, (str, os.PathLike)) else parts
    files = [os.fspath(file) for file in files]
    output = os.fspath(output)
    with reporter(progress, "parts") as report:
        tables, missing = _engine.merge(files, output, report, os.fspath(scratch or ""))
    if complete and missing:
        raise DataError(f"{output} is not complete, as complete=True demands: {'; '.join(missing)}")
    warn_of(missing)
    return pd.DataFrame(tables, columns=["table", "rows", "new"])
