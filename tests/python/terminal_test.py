"""What the package prints for people holds nothing that a terminal would obey."""

import subprocess
import sys
import warnings

import pytest

import kvsim
from kvsim.command import fail
from kvsim.errors.terminal import LONGEST, error_line, printable, say

HOSTILE = "\x1b[31m\a\x9b2J\u202e\r\nkvsim: error: \x7f\udcff"
SHOWN = r"\x1b[31m\x07\x9b2J\u202e\r\nkvsim: error: \x7f\udcff"


def test_text_is_shown_with_escapes_for_what_a_terminal_obeys() -> None:
    assert printable(HOSTILE) == SHOWN
    plain = 'naïve – 日本語 😀 "C:\\dir"'
    assert printable(plain) == plain


def test_the_engine_and_the_package_show_the_same(tmp_path) -> None:
    name = "a\x1b[1m\x9b\u202e\x7f"
    with pytest.raises(kvsim.DataError) as found:
        kvsim.Trace(tmp_path / name)
    assert printable(name) in str(found.value)
    assert "\x1b" not in repr(found.value.args)


def test_errors_and_warnings_are_printable_lines() -> None:
    assert str(kvsim.DataError(HOSTILE)) == error_line(HOSTILE)
    assert str(kvsim.KvsimWarning(HOSTILE)).isprintable()
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        warnings.warn(kvsim.KvsimWarning(HOSTILE), stacklevel=1)
    assert str(noted[0].message).isprintable()


def test_lines_on_standard_error_are_printable(capsys) -> None:
    assert fail(f"{HOSTILE}: wrong", 3) == 3
    say(f"kvsim: {HOSTILE}")
    lines = capsys.readouterr().err.split("\n")
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)


def test_a_long_error_keeps_its_beginning_and_its_end() -> None:
    line = error_line("file " + "x" * 5000 + " fix")
    assert len(line) <= LONGEST
    assert line.startswith("file xxx")
    assert line.endswith("xxx fix")
    assert "[... 4049 characters ...]" in line
    assert error_line("x" * LONGEST) == "x" * LONGEST


@pytest.mark.parametrize("name", ["n" * 300, "loop", "file/below"])
def test_a_name_that_cannot_be_followed_ends_in_one_line(tmp_path, name) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("text")
    with pytest.raises(kvsim.DataError):
        kvsim.Trace(tmp_path / name)
    with pytest.raises(kvsim.results.ResultsError, match="no such result file"):
        kvsim.load(tmp_path / name)
    command = [sys.executable, "-m", "kvsim.tasks", "few-shot", str(tmp_path / name), "-o", "x"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
