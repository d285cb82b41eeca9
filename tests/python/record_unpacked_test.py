"""Vectors that are stored as they are: what goes wrong is named, and nothing is written over."""

import errno
import os
from functools import partial

import h5py
import numpy as np
import pytest

from kvsim.errors import KvsimError
from kvsim.record.spool import SpooledRows
from kvsim.record.trace_file import TraceFile
from kvsim.record.unpacked import write_unpacked


def write(folder):
    with TraceFile(folder / "t.h5", compression="none") as file:
        spooled = SpooledRows(file.spool, 1, 16, 4)
        spooled.append(np.ones((1, 20, 16), np.float32))
        spooled.flush()
        file.write_heads(file.h5["sequences"], "key", spooled, "float32")


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        ("preadv", OSError(errno.EIO, "Input/output error"), "its .* file cannot be read: Input"),
        ("pwrite", OSError("odd"), "t.h5: cannot be written: odd"),
    ],
)
def test_what_fails_is_named_with_its_reason(call, error, said, tmp_path, monkeypatch):
    def fail(*_):
        raise error

    own = SpooledRows.flush
    monkeypatch.setattr(SpooledRows, "flush", lambda rows: (own(rows), fails()))
    fails = partial(monkeypatch.setattr, os, call, fail)
    with pytest.raises(KvsimError, match=said):
        write(tmp_path)


def test_no_head_is_written_over_chunks_that_do_not_follow_each_other(tmp_path):
    with h5py.File(tmp_path / "t.h5", "w") as file:
        key = file.create_dataset("key", (1, 9, 16), "f4", chunks=(1, 3, 16))
        for first in (6, 3, 0):
            key[:, first : first + 3] = first
        file.flush()
        with pytest.raises(KvsimError, match=r"^/key: expected the last chunk of head 0 at"):
            write_unpacked(key, lambda *_: None, tmp_path / "t.h5", 1)
