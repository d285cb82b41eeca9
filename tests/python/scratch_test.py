"""Result files that are written on a local disk and brought to their place whole."""

import signal
import sqlite3
import subprocess
import sys
import warnings
from contextlib import closing

import pytest

import kvsim
from conftest import SAMPLE
from kvsim import _engine


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def place(tmp_path):
    """A folder for the result file, and one for its local copy."""
    (tmp_path / "shared").mkdir()
    return tmp_path / "shared", tmp_path / "local"


def test_a_folder_for_a_result_file_needs_one(tmp_path):
    with pytest.raises(kvsim.UsageError, match="scratch: expected output"):
        kvsim.sweep(SAMPLE, "window", "10%", scratch=tmp_path)
    with pytest.raises(kvsim.UsageError, match="scratch: expected output"):
        kvsim.curve(SAMPLE, "window", scratch=tmp_path)
    with pytest.raises(kvsim.UsageError, match="scratch: expected output"):
        kvsim.analyze(SAMPLE, "sparsity", scratch=tmp_path)


def test_functions_write_the_same_rows_with_scratch(place):
    shared, local = place
    options = {"layers": 0, "output": shared / "r.sqlite", "scratch": local}
    frame = kvsim.sweep(SAMPLE, "window;h2o", "10%", **options)
    kvsim.curve(SAMPLE, "window", **options)
    kvsim.analyze(SAMPLE, "sparsity", **options)
    kept = kvsim.load(shared / "r.sqlite")
    assert len(kept.replay) == len(frame) and {"curve", "sparsity"} <= set(kept.tables)
    assert names_in(shared) == ["r.sqlite"] and names_in(local) == []


def test_a_file_that_another_program_changed_is_not_overwritten(place):
    shared, local = place
    file = shared / "r.sqlite"

    def meanwhile(done, total):
        if done and not file.exists():
            kvsim.sweep(SAMPLE, "sink", "10%", layers=0, output=shared / "other.sqlite")
            (shared / "other.sqlite").rename(file)

    with pytest.warns(kvsim.KvsimWarning, match="was changed by another program.* kvsim merge"):
        kvsim.sweep(
            SAMPLE, "window;h2o", "10%", output=file, scratch=local, progress=meanwhile,
            executor=Here(),
        )  # fmt: skip
    assert kvsim.load(file).replay.policy.str.startswith("sink").all()
    (other,) = set(shared.iterdir()) - {file}
    assert not kvsim.load(other).replay.policy.str.startswith("sink").any()


class Here:
    """An executor that runs a call at once."""

    def submit(self, function, *arguments):
        from concurrent.futures import Future

        future = Future()
        future.set_result(function(*arguments))
        return future


def test_rows_of_the_closed_loop_share_the_copy_of_a_sweep(place):
    shared, local = place
    file = shared / "r.sqlite"
    loop = _engine.ClosedLoopFile(str(file), str(local))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kvsim.sweep(SAMPLE, "window", "10%", layers=0, output=file, scratch=local)
        loop.begin_run("kvsim.evaluate", "cpu", 1)
        assert names_in(shared) == []
        loop.close()
    assert {"closed_loop", "replay"} <= set(kvsim.load(file).tables)
    assert names_in(local) == []


TERMINATED = """
import signal, sys, kvsim
signal.signal(signal.SIGTERM, signal.default_int_handler)
trace = kvsim.synth(tokens=700, layers=8, kv_heads=4, query_heads=4, no_output=True)
def progress(done, total):
    if done: print("begun", flush=True)
try:
    kvsim.sweep(trace, "all;oracles", "5%,10%", threads=1, output=sys.argv[1], scratch=sys.argv[2],
                progress=progress)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_sweep_that_is_terminated_brings_its_rows_to_their_place(place):
    shared, local = place
    file = shared / "r.sqlite"
    child = subprocess.Popen(
        [sys.executable, "-c", TERMINATED, file, local], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "begun\n"
    child.send_signal(signal.SIGTERM)
    assert child.communicate(timeout=120)[0].splitlines()[-1] == "interrupted"
    assert len(kvsim.load(file).replay) > 0
    assert names_in(local) == []


def test_a_file_that_may_only_be_read_is_loaded(place):
    shared, _ = place
    file = shared / "r.sqlite"
    kvsim.sweep(SAMPLE, "window", "10%", layers=0, output=file)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")  # which needs files next to it
    file.chmod(0o400)
    shared.chmod(0o500)
    try:
        assert len(kvsim.load(file).replay) > 0
    finally:
        shared.chmod(0o700)
