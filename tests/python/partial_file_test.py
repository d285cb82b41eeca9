"""Files that are written whole, under whatever a disk refuses."""

import resource
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import kvsim
from kvsim.files.partial import folder_aside, put_in_place, written_whole
from kvsim.labels.__main__ import main as labels
from kvsim.record.spool import SpooledRows
from kvsim.record.trace_file import TraceFile

SAMPLE = Path(__file__).parents[2] / "traces" / "sample" / "tiny-llama.h5"


@contextmanager
def largest_file(size):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def names(folder):
    return [path.name for path in folder.iterdir()]


def test_writers_at_once_leave_one_whole_file(tmp_path):
    path = tmp_path / "f"

    def write(letter):
        with written_whole(path) as partial:
            partial.write_text(letter * 100000)

    writers = [threading.Thread(target=write, args=letter) for letter in "abcde"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    text = path.read_text()
    assert text == text[0] * 100000
    assert names(tmp_path) == ["f"]


def test_a_failure_leaves_the_earlier_file(tmp_path):
    (tmp_path / "f").write_text("earlier")
    with pytest.raises(ZeroDivisionError), written_whole(tmp_path / "f") as partial:
        partial.write_text("half")
        raise ZeroDivisionError
    assert (tmp_path / "f").read_text() == "earlier"
    assert names(tmp_path) == ["f"]


def test_a_folder_of_a_killed_process_is_removed_by_the_next(tmp_path):
    script = (
        "import os, sys; from pathlib import Path; from kvsim.files.partial import folder_aside\n"
        "with folder_aside(Path(sys.argv[1]), 'report') as aside:\n"
        "    (aside / 'f').write_text('half'); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)
    assert len(names(tmp_path)) == 1
    with folder_aside(tmp_path, "report") as aside:
        assert names(tmp_path) == [aside.name]
        (aside / "f").write_text("whole")
        put_in_place([(aside / "f", tmp_path / "f")], aside)
    assert names(tmp_path) == ["f"]


@pytest.mark.parametrize("most", [100000, 600000])  # of the spool, and of the trace
def test_a_trace_that_may_not_grow_is_one_line(most, tmp_path):
    path = tmp_path / "t.h5"
    with (
        largest_file(most),
        pytest.raises(kvsim.KvsimError, match=f"^{path}: cannot be written: File too large$"),
        TraceFile(path) as file,
    ):
        group = file.h5["sequences"].create_group("a")
        for name in ("key", "value"):
            rows = SpooledRows(file.spool, 4, 64, 4)
            numbers = np.random.default_rng(0).standard_normal((4, 500, 64), np.float32)
            rows.append(numbers)
            rows.flush()
            file.write_heads(group, name, rows, "float32")
            file.spool.clear()
        file.commit()
    assert names(tmp_path) == []


@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_labels_that_may_not_grow_are_one_line(tmp_path, capsys, ending):
    path = tmp_path / f"l.{ending}"
    with largest_file(2000):
        assert labels([str(SAMPLE), "--layers", "0", "--quiet", "-o", str(path)]) == 1
    error = capsys.readouterr().err
    assert error == f"kvsim: error: {path}: cannot be written: File too large\n"
    assert names(tmp_path) == []


def test_labels_that_are_terminated_leave_nothing(tmp_path, capsys, monkeypatch):
    from kvsim.labels.files import NpzFile

    def add(self, unit):
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(NpzFile, "add", add)
    path = tmp_path / "l.npz"
    assert labels([str(SAMPLE), "--layers", "0", "--quiet", "-o", str(path)]) == 1
    assert capsys.readouterr().err == f"kvsim: error: interrupted; {path} is not written\n"
    assert names(tmp_path) == []
