"""Traces are read without locks of their files."""

import fcntl
from pathlib import Path

import h5py
import pytest

import kvsim
from kvsim.report.numbers.attention import read_head

TRACE = Path(__file__).parents[2] / "traces/sample/tiny-llama.h5"


@pytest.fixture
def locked(tmp_path):
    """A trace of which another program holds an exclusive lock."""
    path = tmp_path / "t.h5"
    path.write_bytes(TRACE.read_bytes())
    with path.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(OSError):
            h5py.File(path, "r")  # the library's way
        yield path


def test_a_locked_trace_is_read(locked):
    assert kvsim.Trace(locked).trace_id == kvsim.Trace(TRACE).trace_id
    sequence = kvsim.Trace(locked).sequences[0].name
    assert read_head(locked, sequence, 0, 0).query.shape[0] > 0


def test_a_trace_that_is_open_elsewhere_in_this_process_is_read(tmp_path):
    path = tmp_path / "t.h5"
    path.write_bytes(TRACE.read_bytes())
    with h5py.File(path, "r"):
        assert kvsim.Trace(path).trace_id == kvsim.Trace(TRACE).trace_id
