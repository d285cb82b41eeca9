"""What the site's first pages show is what happens: their commands and their Python run here.

A block `console` has commands and what they print; `...` stands for any lines. Blocks `sh` are not
run: they install, take long, or need a cluster.
"""

import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import HERE, PROGRAM, needs_program

DOCS = HERE.parents[1] / "python" / "docs"
PAGES = ["install", "first_comparison", "your_model", "your_policy", "your_cluster"]
# Numbers of a running model may differ in their last digits with the release of torch.
RUNS_A_MODEL = {"your_model"}
_NUMBER = re.compile(r"(?<!\w)[+-]?\d+(?:\.\d+)?(?:e[+-]\d+)?")


def blocks(page):
    text = (DOCS / f"{page}.md").read_text()
    return re.findall(r"^```(\w+)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def commands(block):
    """Pairs of a command and what it prints."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def alike(line, expected):
    """Whether two lines have the same words, and numbers that are nearly the same."""
    texts = [_NUMBER.sub("#", " ".join(text.split())) for text in (line, expected)]
    numbers = [[float(number) for number in _NUMBER.findall(text)] for text in (line, expected)]
    return texts[0] == texts[1] and numbers[0] == pytest.approx(numbers[1], rel=0.1, abs=0.003)


def matches(lines, expected, same):
    if not expected:
        return not lines
    if expected[0] == "...":
        return any(matches(lines[i:], expected[1:], same) for i in range(len(lines) + 1))
    return bool(lines) and same(lines[0], expected[0]) and matches(lines[1:], expected[1:], same)


def check(printed, expected, same=str.__eq__):
    lines, wanted = ([line.rstrip() for line in t.splitlines()] for t in (printed, expected))
    assert matches(lines, wanted, same), f"{printed}\nis not\n{expected}"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where a reader is: the sample traces, and the program and Python on the PATH."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "kvsim").symlink_to(Path(PROGRAM).resolve())
    (programs / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (programs / "python").chmod(0o755)
    (tmp_path / "traces").symlink_to(HERE.parents[1] / "traces")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def run(command):
    """What a command prints. A module that needs torch runs here, where torch is loaded."""
    module = re.match(r"python -m (\S+) (.*)", command)
    if not module:
        done = subprocess.run(
            command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        return done.stdout
    words = subprocess.run(
        f"printf '%s\\n' {module[2]}", shell=True, capture_output=True, text=True
    ).stdout.splitlines()
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr(sys, "argv", [module[1], *words])
        with contextlib.redirect_stderr(printed), contextlib.suppress(SystemExit):
            runpy.run_module(module[1], run_name="__main__", alter_sys=False)
    return printed.getvalue()


@needs_program
@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_shows_is_what_happens(page, folder):
    if page in RUNS_A_MODEL:
        pytest.importorskip("torch")
    same = alike if page in RUNS_A_MODEL else str.__eq__
    python = None
    for kind, block in blocks(page):
        if kind == "console":
            for command, expected in commands(block):
                check(run(command), expected, same)
        elif kind == "python":
            (folder / "mine.py").write_text(block)
            python = run("python mine.py") if page != "your_policy" else None
        elif kind == "text":
            check(python, block)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_short(page):
    assert len((DOCS / f"{page}.md").read_text().splitlines()) <= 90


def test_a_command_that_prints_something_else_fails():
    check("a 1\nb 2\nc 3\n", "a 1\n...\n")
    for expected in ["a 2\n...\n", "...\nb 2\n"]:
        with pytest.raises(AssertionError):
            check("a 1\nb 2\nc 3\n", expected)
    check("kl  0.051  8 of 16\n", "kl 0.050 8 of 16\n", alike)
    with pytest.raises(AssertionError):
        check("kl  refused\n", "kl 0.050\n", alike)
