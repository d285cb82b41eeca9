"""What the page of the report says of itself, and how it is explored."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

import kvsim
from conftest import H2O, OPTIMAL, comparison_of, drawing_of
from kvsim.report import page as page_module
from kvsim.report import pictures
from kvsim.report.__main__ import announced, main
from kvsim.report.figures import gap
from kvsim.report.style import COLUMN, LIGHT, TEXT
from nightly import sample_of


@pytest.fixture
def report(result_file, tmp_path, monkeypatch, capsys):
    """Draws the report of the file and returns its page and what was printed."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")

    def draw(*options):
        assert main([str(result_file.path), "-o", str(tmp_path / "out"), *options]) == 0
        return (tmp_path / "out" / "index.html").read_text(), capsys.readouterr()

    return draw


@pytest.fixture
def drawn(report, without_pictures):
    return report


def test_the_page_has_its_command_date_and_revisions(result_file, drawn):
    result_file.sweep(["window"], kvsim_version="0.2.0+g1a2b3c4")
    result_file.sweep([H2O], kvsim_version="0.2.0+g5d6e7f8.dirty")
    page, _ = drawn("--budget", "10%")
    assert f"<code>kvsim report {result_file.path} -o " in page and "--budget 10%</code>" in page
    assert "1970-01-02 00:00 UTC" in page
    assert "written by kvsim 0.2.0+g1a2b3c4, 0.2.0+g5d6e7f8.dirty" in page
    assert "open loop" in page and "not corrected for the number of policies" in page


def test_the_page_names_the_revision_of_the_program_that_drew_it(result_file, drawn, monkeypatch):
    result_file.sweep(["window"])
    monkeypatch.delenv("KVSIM_VERSION", raising=False)
    assert f"UTC, by kvsim {kvsim.__version__}<" in drawn()[0]
    monkeypatch.setenv("KVSIM_VERSION", "0.2.0+g1a2b3c4")
    assert "UTC, by kvsim 0.2.0+g1a2b3c4<" in drawn()[0]


def test_a_reader_that_leaves_is_no_error(result_file, tmp_path):
    result_file.sweep(["window"], layers=1, kv_heads=1)
    script = "import runpy; from kvsim.report import page; page._PLANS = ()\n"  # which are slow
    script += "runpy.run_module('kvsim.report', run_name='__main__')"
    command = [sys.executable, "-c", script, "--quiet", result_file.path, "-o", tmp_path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert b"Error" not in process.stderr.read()
    assert process.returncode == 0


def test_the_program_says_where_the_page_is_and_the_page_links_the_files(
    result_file, drawn, tmp_path
):
    result_file.sweep(["window", H2O])
    page, said = drawn()
    out = tmp_path / "out"
    assert said.out == f"{out / 'index.html'}: 6 figures\n"
    figures = {str(file.relative_to(out)) for file in (out / "figures").iterdir()}
    assert set(re.findall(r'href="(figures/[^"]*)"', page)) == figures
    assert len(figures) == 6 * 6  # a file per theme, kind and width


def test_progress_is_plain_lines_and_quiet_is_silent(result_file, drawn):
    result_file.sweep(["window"])
    lines = drawn()[1].err.splitlines()
    assert lines[0] == "kvsim: 1 of 6 figures: overview" and len(lines) == 6
    assert drawn("--quiet")[1].err == ""


def test_a_report_of_the_same_rows_has_the_same_bytes(result_file, report, tmp_path, monkeypatch):
    monkeypatch.setattr(page_module, "_PLANS", sample_of((gap,), page_module._PLANS))
    result_file.sweep(["window", H2O, OPTIMAL], **sample_of({"budgets": (8,), "layers": 1}, {}))

    def contents():
        report()
        return {file: file.read_bytes() for file in (tmp_path / "out").rglob("*.*")}

    assert contents() == contents()


@pytest.mark.parametrize("shape, inches", [(COLUMN, 3.3), (TEXT, 6.9)], ids=["column", "text"])
def test_figures_for_papers_have_their_width_and_fonts_that_publishers_take(
    result_file, shape, inches
):
    drawing = drawing_of(result_file.sweep(["window", H2O]).path, "recall")
    (pdf,) = pictures.render(drawing, LIGHT, shape, ["pdf"])
    (width,) = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+) ", pdf)
    assert float(width) == pytest.approx(72 * inches)
    assert b"/Type3" not in pdf and b"/CIDFontType2" in pdf
    assert b"CreationDate" not in pdf


def test_without_scripts_the_page_shows_all_and_with_them_it_is_explored(result_file, drawn):
    result_file.sweep().analyses()
    page, _ = drawn()
    figures = re.findall(r"<figure>.*?</figure>", page, re.S)
    explored = [figure for figure in figures if 'class="explore"' in figure]
    assert len(explored) == 9
    for figure in explored:
        assert "<picture>" in figure
        source = re.search(
            r'<script type="application/json" class="explore">(.*?)</script>', figure
        )
        moving = json.loads(source[1])
        assert moving["data"] and moving["layout"]
        colours = re.findall(r'"(?:color|fillcolor)": "([^"]*)"', source[1])
        assert all(re.fullmatch(r"var\(--(p\d+|ink|muted)\)", colour) for colour in colours)
    assert page.count('<table class="sortable">') == 3


def test_names_are_text_in_the_explored_figures_too(result_file):
    path = result_file.sweep(["window", "<b>bold</b>"]).path
    names = [line["name"] for line in drawing_of(path, "recall").explore["data"]]
    assert sorted(names) == ["&lt;b&gt;bold&lt;/b&gt;", "window"]


def _with_columns(file, **columns):
    there = {row[1] for row in file.connection.execute("PRAGMA table_info(replay)")}
    for name, kind in columns.items():
        if name not in there:
            file.connection.execute(f"ALTER TABLE replay ADD COLUMN {name} {kind}")


def test_a_label_names_a_policy(result_file):
    _with_columns(result_file, label="TEXT")
    result_file.sweep(["window", "schedule:file=/far/plan.h5"])
    result_file.sweep([H2O], label="mine")
    comparison = comparison_of(result_file.path, policies=("mine", "window"))
    assert [comparison.styles[spec].label for spec in comparison.policies] == ["mine", "window"]


def test_two_specs_of_one_label_are_told_apart(result_file):
    _with_columns(result_file, label="TEXT")
    result_file.sweep([H2O, "window"], label="mine")
    labels = {style.label for style in comparison_of(result_file.path).styles.values()}
    assert labels == {"mine", "mine #2"}


def test_policies_that_mostly_break_ties_are_named(result_file):
    _with_columns(result_file, ties="INTEGER")
    result_file.sweep(["window", "knorm"], ties=0)
    result_file.connection.execute(
        "UPDATE replay SET ties = evictions * 6 / 10 WHERE policy = 'knorm'"
    )
    result_file.connection.commit()
    (note,) = comparison_of(result_file.path).notes
    assert note.startswith("Most evictions are decided by ties") and note.endswith(": knorm.")


def test_the_runs_that_wrote_the_rows_are_shown(result_file, drawn):
    _with_columns(result_file, run_id="TEXT")
    result_file.connection.execute(
        "CREATE TABLE IF NOT EXISTS run (run_id TEXT NOT NULL PRIMARY KEY, started TEXT NOT NULL, "
        "seconds REAL NOT NULL, command TEXT NOT NULL, kvsim_version TEXT NOT NULL, host TEXT NOT "
        "NULL, device TEXT NOT NULL, threads INTEGER NOT NULL, rows_written INTEGER NOT NULL)"
    )
    for run in ("first", "other"):
        result_file.add(
            "run", run_id=run, started="2026-01-02T03:04:05Z", seconds=1.5, kvsim_version="0.2.0",
            command=f"kvsim sweep {run}.h5", host="secret", device="cpu", threads=2, rows_written=8,
        )  # fmt: skip
    result_file.sweep(["window"], run_id="first")
    page, _ = drawn()
    assert "<code>kvsim sweep first.h5</code>" in page
    assert "other.h5" not in page and "secret" not in page


def test_progress_is_a_bar_on_a_terminal(monkeypatch):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    os.set_blocking(ours, False)  # so that a bar that is missing is no endless wait
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        assert list(announced(["recall", "layers"])) == ["recall", "layers"]
        terminal.flush()
        assert "figures:" in os.read(ours, 1 << 16).decode()
    os.close(ours)
