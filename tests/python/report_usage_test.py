"""What `kvsim report` says of bad usage and bad files, each in one line."""

import os
import re
import sqlite3
import subprocess
import sys

import pytest

from conftest import PROGRAM, needs_program
from kvsim.report.__main__ import main


def _run(*arguments):
    command = [sys.executable, "-m", "kvsim.report", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def _run_here(capsys, *arguments):
    """The same in this process, which takes a tenth of the time: status and lines of stderr."""
    try:
        status = main([*map(str, arguments)])
    except SystemExit as exit_:
        status = exit_.code
    said = capsys.readouterr()
    assert not said.out
    return status, said.err.splitlines()


def test_bad_input_ends_in_one_line(result_file, tmp_path, capsys):
    (tmp_path / "text").write_text("not a database, but long enough to look for a header in it")
    out = ["-o", tmp_path / "out"]
    cases = [
        ([tmp_path / "none.sqlite", *out], 3, "there is no such result file"),
        ([tmp_path / "text", *out], 3, "expected a result file"),
        ([result_file.path, *out], 3, "no rows to show; what would write some: kvsim sweep"),
        ([result_file.path], 2, "-o/--output"),
        ([result_file.path, *out, "--seed", "x"], 2, "--seed"),
    ]
    for arguments, status, says in cases:
        ended, (line,) = _run_here(capsys, *arguments)
        assert ended == status and line.startswith("kvsim: error: ") and says in line
    done = _run(*cases[0][0])
    assert done.returncode == 3 and done.stderr.count("\n") == 1 and not done.stdout
    result_file.sweep(["window"])
    foreign = tmp_path / "foreign.sqlite"
    with sqlite3.connect(foreign) as connection:
        connection.executescript("CREATE TABLE replay (layer); INSERT INTO replay VALUES (1)")
    status, (line,) = _run_here(capsys, foreign, *out)
    assert status == 3 and "a table replay without a column" in line
    status, (line,) = _run_here(capsys, result_file.path, *out, "--budget", "3")
    assert status == 2 and "--budget" in line


@pytest.mark.parametrize(
    "chosen, says",
    [
        (["--policies", ""], "--policies: expected names or specs, found none"),
        (["--layer", "99"], "--layer: .* has no 99 to map; it has 0"),
        (["--query-head", "9"], "--query-head: .* has no 9 to map; it has 0, 1, 2, 3"),
        (["--trace", "none.h5"], "--trace: the trace none.h5 is not there"),
        (["-o", "taken"], "--output: taken: there is a file of that name"),
        (["-o", "taken/page"], "--output: taken: there is a file of that name"),
    ],
)
def test_a_choice_that_is_not_there_is_wrong_usage(
    chosen, says, whole_file, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").touch()
    try:
        status = main([str(whole_file), "-o", "out", *chosen])
    except SystemExit as exit_:
        status = exit_.code
    err = capsys.readouterr().err
    assert status == 2 and re.search(says, err) and err.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("without_pictures")
def test_a_layer_that_was_not_replayed_is_wrong_usage_without_a_map_too(result_file, tmp_path):
    path = str(result_file.sweep(["window"]).path)
    assert main([path, "-o", str(tmp_path / "out"), "--layer", "99"]) == 2
    assert main([path, "-o", str(tmp_path / "out"), "--layer", "1"]) == 0


@pytest.mark.parametrize("library", ["pandas", "matplotlib", "jinja2", "plotly"])
def test_a_missing_library_is_said_in_one_line(library, result_file, tmp_path):
    blocked = f"import runpy, sys; sys.modules[{library!r}] = None; "
    blocked += "runpy.run_module('kvsim.report', run_name='__main__')"
    command = [sys.executable, "-c", blocked, result_file.path, "-o", tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "pip install ." in done.stderr
    assert done.stderr.count("\n") == 1


@needs_program
def test_the_program_names_the_options_that_the_package_takes():
    shown = subprocess.run([PROGRAM, "report", "--help"], capture_output=True, text=True).stdout
    ours = _run("--help").stdout
    of_the_program = {"--config"}  # which it turns into the others
    assert set(re.findall(r"--[a-z-]+", shown)) - of_the_program == set(
        re.findall(r"--[a-z-]+", ours)
    )


@needs_program
def test_a_folder_named_kvsim_is_not_taken_for_the_package(result_file, tmp_path):
    (tmp_path / "kvsim" / "python").mkdir(parents=True)
    (tmp_path / "python").write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
    (tmp_path / "python").chmod(0o755)
    done = subprocess.run(
        [PROGRAM, "report", result_file.sweep(["window"]).path, "-o", "out"], cwd=tmp_path,
        env=os.environ | {"KVSIM_PYTHON": str(tmp_path / "python")}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "-m pip install WHEEL, or in the source folder pip install ." in done.stderr
