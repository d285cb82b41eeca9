"""Compares a file with the digests that were written with it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def check(file: str | Path, *, renew_digests: bool = False) -> pd.DataFrame:
    """Reads all of a result file, as `kvsim check` does.

    >>> kvsim.check("results.sqlite")

    Arguments:
      file: a result file.
      renew_digests: takes the rows as they are, of a file that was changed on purpose.

    Returns a frame with a row per table: `table`, `rows`, `units`, the number of digests that agree
    with the rows, and `verdict`: "agrees", or "no digests" where an earlier version or another
    program has written the table; its values alone were looked at.

    Raises DataError at the first fault, with the table, the key, the column, what was expected and
    what was found; KeyboardInterrupt at Ctrl-C.
    """
    import pandas as pd

    from . import _engine

    tables = _engine.check_results(os.fspath(file), renew_digests)
    rows = [
        (name, rows, units, "no digests" if units is None else "agrees")
        for name, rows, units in tables
    ]
    frame = pd.DataFrame(rows, columns=["table", "rows", "units", "verdict"])
    return frame.astype({"units": "Int64"})
