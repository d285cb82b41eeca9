"""Compares a file with the digests that were written with it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

_VERDICTS = {True: "agrees", False: "no digests"}


def check(file: str | Path) -> pd.DataFrame:
    """Reads all of a result file or a trace, as `kvsim check` does.

    Parameters
    ----------
    file : path
        A result file (SQLite) or a trace (HDF5).

    Returns
    -------
    pandas.DataFrame
        Of a result file a row per table: `table`, `rows`, `units`, the number of digests that agree
        with the rows, and `verdict`. Of a trace a row per sequence: `sequence`, `tokens`, `layers`,
        `kv_heads`, `verdict`. A verdict is "agrees", or "no digests" where an earlier version or
        another program has written it; its values alone were looked at.

    Raises
    ------
    DataError
        At the first fault, with its place, what was expected and what was found.
    KeyboardInterrupt
        At Ctrl-C.

    Examples
    --------
    >>> kvsim.check("results.sqlite")
    """
    import pandas as pd

    from .. import _engine

    path = os.fspath(file)
    _engine.check_is_file(path)
    if _engine.is_result_file(path):
        tables = _engine.check_result_file(path)
        rows = [(*table, _VERDICTS[table[-1] is not None]) for table in tables]
        frame = pd.DataFrame(rows, columns=["table", "rows", "units", "verdict"])
        return frame.astype({"units": "Int64"})
    rows = [(*found[:-1], _VERDICTS[found[-1]]) for found in _engine.check_trace_file(path)]
    return pd.DataFrame(rows, columns=["sequence", "tokens", "layers", "kv_heads", "verdict"])
