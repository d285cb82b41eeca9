"""Opens trace files for the parts of the package that read them by h5py."""

from __future__ import annotations

from pathlib import Path

import h5py


def read_hdf5(path: str | Path) -> h5py.File:
    """Opens a file to read, without a lock, which parallel file systems may refuse.

    Writers make a file beside it and rename that when it is complete. Raises OSError.
    """
    try:
        return h5py.File(path, "r", locking=False)
    except OSError:  # another part of this process may have it open, locked
        return h5py.File(path, "r")
