"""analysis/papers.md has every item of the papers, its commands run, and its numbers are theirs."""

import contextlib
import io
import os
import re
import runpy
import shlex
import sqlite3
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import HERE, PROGRAM, empty_files, needs_program
from kvsim.report import page
from nightly import sample_of

ROOT = HERE.parents[1]
PAGE = ROOT / "analysis" / "papers.md"


def numbered(kind, *numbers):
    return [f"{kind} {number}" for number in numbers]


# All that the papers number, by the heading of their table.
ITEMS = {
    "H2O": [
        *numbered("Algorithm", 1, 2, 3, 4),
        *numbered("Figure", 1, "2a", "2b", "2c", "2d", *range(3, 15)),
        *numbered("Table", *range(1, 13)),
        *numbered("Definition", 2.1, 2.2, 4.1, 4.3),
        *numbered("Remark", 2.3, 4.2, 4.5),
        "Lemma 3.1",
        "Theorem 4.4",
        *(f"D.{number}" for number in range(1, 50)),
    ],
    "Scissorhands": [
        *numbered("Algorithm", 1, 2),
        *numbered("Figure", *range(1, 11)),
        *numbered("Table", *range(1, 6)),
        "Definition 4.1",
        *numbered("Theorem", 3.1, 4.1, "B.1", "B.2", "B.3"),
        *numbered("Lemma", "B.1", "B.2", "B.3", "B.4", "B.5"),
    ],
    "SubGen": [
        "Algorithm 1",
        "Figure 1",
        "Table 1",
        "Definition 1",
        *numbered("Lemma", 1, 2),
        "Theorem 1",
        "Corollary 1",
    ],
}


@dataclass(frozen=True)
class Row:
    """A row of a table of the page, by the names of its columns."""

    paper: str
    items: str
    made_by: str
    lands: str
    shows: str
    differs: str

    @property
    def command(self):
        """The command, or None where the row has none."""
        found = re.fullmatch(r"`([^`]+)`", self.made_by)
        return found and found[1]


def rows():
    found, paper = [], None
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            paper = line[3:]
        elif line.startswith("| ") and not re.match(r"\| (item|---) ", line):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            assert len(cells) == 5, line
            found.append(Row(paper, *cells))
    return found


# What takes longest, which is run by night.
LONG = {
    "H2O Figure 1",
    "H2O Figure 4",
    "H2O Remark 2.3",
    "H2O Table 1; Table 10; Figure 8",
    "Scissorhands Figure 3; Table 3; Table 4",
    "SubGen Table 1; section 3.2",
    "SubGen Theorem 1",
}
ROWS = rows()
COMMANDS = defaultdict(list)
for row in ROWS:
    if row.command:
        COMMANDS[row.command].append(row)
NAMES = {command: f"{made[0].paper} {made[0].items}" for command, made in COMMANDS.items()}
# What the test compares: `table.column` mean 0.5 of `policy`, 7 where `condition`
NUMBER = r"-?\d[\d,]*(?:\.\d+)?"
OF = r"(?: (of|where) `([^`]+)`)"
MEASURED = re.compile(rf"`(\w+)\.(\w+)` (mean|sum|least|most) ({NUMBER}{OF}?(?:, {NUMBER}{OF})*)")
SQL = {"mean": "avg", "sum": "sum", "least": "min", "most": "max"}


@pytest.mark.parametrize("paper", ITEMS)
def test_every_item_of_the_paper_has_one_row(paper):
    named = [row.items for row in ROWS if row.paper == paper]
    for item in ITEMS[paper]:
        pattern = rf"(?<![\w.]){re.escape(item)}(?![\w.])"
        assert sum(bool(re.search(pattern, items)) for items in named) == 1, item


def test_a_row_has_a_command_or_says_what_it_needs_or_which_test_checks_it():
    for row in ROWS:
        tests = re.findall(r"\]\(\.\./(tests/[^)]+)\)", row.lands)
        assert row.command or row.made_by.startswith("needs ") or tests, row
        for test, names in re.findall(r"\]\(\.\./(tests/[^)]+)\)((?:: \"[^\"]+\")?)", row.lands):
            assert not names or names[3:-1] in _joined(ROOT / test), row


def _joined(path: Path) -> str:
    """A test's source, with strings that go on in the next line as one."""
    return re.sub(r'"\s*\n\s*"', "", path.read_text())


def setting():
    """The variables that the page sets before its commands."""
    (block,) = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    found = re.findall(r'(\w+)=("[^"]*"|\S+)', block)
    return {name: value.strip('"') for name, value in found}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with traces and pages as in the root and kvsim on PATH."""
    for name in ("traces", "policies"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kvsim").symlink_to(Path(PROGRAM).resolve())
    (tmp_path / "bin" / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tmp_path / "bin" / "python").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("KVSIM_PYTHON", sys.executable)
    for name, value in setting().items():
        monkeypatch.setenv(name, value)
    return tmp_path


def by_shell(command):
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def in_parts(command):
    """As by the shell, but what is written in Python runs here, where torch is imported already.

    Papers are repeated with two texts. Of a report only the names of its pictures are made.
    """
    command = re.sub(r"for (\w) in (.+?); do (.+?); done; ", unrolled, command)
    command = command.replace("--count 5", "--count 2")
    return "".join(map(printed_by, command.split(" && ")))


def unrolled(loop):
    variable, values, body = loop.groups()
    return "".join(f"{body.replace(f'${variable}', value)} && " for value in values.split())


def printed_by(part):
    words = shlex.split(os.path.expandvars(part))
    if words[:2] == ["kvsim", "report"]:
        words[:2] = ["python", "-m", "kvsim.report"]
    if words[:2] != ["python", "-m"]:
        return by_shell(part)
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr(sys, "argv", words[2:])
        patch.setattr(page, "write_files", empty_files)
        with pytest.raises(SystemExit) as ended:
            runpy.run_module(words[2], run_name="__main__")
    assert not ended.value.code
    return printed.getvalue()


def test_what_is_left_to_the_night_is_on_the_page():
    assert set(NAMES.values()) >= LONG


@needs_program
@pytest.mark.parametrize(
    "command",
    [each for each in COMMANDS if sample_of(NAMES[each] not in LONG, True)],
    ids=NAMES.get,
)
def test_a_command_of_the_page_runs_and_its_numbers_are_where_and_what_the_page_says(
    command, folder
):
    printed = sample_of(in_parts, by_shell)(command)
    for row in COMMANDS[command]:
        places = row.lands.replace("output: ", "output:")
        for text in re.findall(r"output:([^,]+)", places):
            assert text in printed, row.lands
        for place in re.findall(r"`([^`]+)`", row.lands):
            if re.fullmatch(r"\w+\.\w+", place) and not (folder / place).exists():
                assert values(folder, *place.split("."))["count"] > 0, place
            else:
                assert (folder / place).exists(), place
        for table, column, kind, numbers, *_ in MEASURED.findall(row.shows):
            for number, of, which in re.findall(rf"({NUMBER}){OF}?", numbers):
                found = values(folder, table, column, of, which)[kind]
                printed = float(number.replace(",", ""))
                assert found == pytest.approx(printed, abs=rounding(number)), (column, which)


def values(folder, table, column, of="", which=""):
    """How many values a column has, and what the page may say of them, in all rows or some."""
    from kvsim.reproduce.experiment import canonical

    where = {"": "true", "of": "policy = ?", "where": which}[of]
    kinds = ", ".join(f"{function}({column})" for function in SQL.values())
    with sqlite3.connect(folder / "r.sqlite") as results:
        query = f"SELECT count({column}), {kinds} FROM {table} WHERE {where}"
        (found,) = results.execute(query, [canonical(which)] if of == "of" else []).fetchall()
    return dict(zip(["count", *SQL], found))


def rounding(number):
    """How far from a printed number the measured one may be: nowhere from 0, else half a unit of a
    whole number, and a little more of a fraction, as other machines round otherwise."""
    digits = len(number.partition(".")[2])
    if float(number.replace(",", "")) == 0:
        return 1e-9
    return (0.75 if digits else 0.5) * 10**-digits
