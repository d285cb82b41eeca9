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

    Rows with the same key must be equal, but for `run_id` and `trace`, and are kept once.

    Parameters
    ----------
    parts : path or sequence of paths
        Result files. One that is `output` itself, or is named twice, counts once.
    output : path
        The result file (SQLite); what it holds already takes part.
    complete : bool, default False
        Raises DataError if shards are missing or unfinished; the rest is in `output`.
    progress : bool or callable, optional
        As for `kvsim.sweep`, in parts.
    scratch : path, optional
        A folder on a local disk in which `output` is written; see `kvsim.Options`.

    Returns
    -------
    pandas.DataFrame
        A row per table: `table`; `rows`, their number; and `new`, the number of those that `output`
        did not have.

    Raises
    ------
    UsageError
        Without parts.
    DataError
        For rows, tables or codes of policies that do not fit together, with the names of both
        files; for a part that is missing or no result file. `output` is then as it was.
    KeyboardInterrupt
        At Ctrl-C. `output` is then as it was.

    Warns
    -----
    KvsimWarning
        For the shards that are missing or unfinished.

    Examples
    --------
    >>> kvsim.merge(sorted(Path("parts").glob("*.sqlite")), "all.sqlite")
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
