"""Starting the program, and what `import kvsim` brings."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import kvsim
from kvsim.program import find_program


@pytest.mark.parametrize("kind", ["nothing", "a text", "a folder"])
def test_what_cannot_be_started_is_a_program_error(kind, tmp_path, monkeypatch):
    named = tmp_path / "kvsim"
    if kind == "a text":
        named.write_text("text")
    if kind == "a folder":
        named.mkdir()
    monkeypatch.setenv("KVSIM_PROGRAM", str(named))
    with pytest.raises(kvsim.ProgramError, match="KVSIM_PROGRAM: there is no program"):
        kvsim.run("policies")


def test_a_program_that_the_system_cannot_run_is_a_program_error(tmp_path, monkeypatch):
    named = tmp_path / "kvsim"
    named.write_bytes(b"\x7fELF of another machine")
    named.chmod(0o755)
    monkeypatch.setenv("KVSIM_PROGRAM", str(named))
    with pytest.raises(kvsim.ProgramError, match="cannot be run"):
        kvsim.run("policies")


@pytest.mark.parametrize(("script", "status", "says"), [("exit 7", 7, ""), (None, 1, "KVSIM_PR")])
def test_python_m_kvsim_is_the_program(script, status, says, tmp_path):
    named = tmp_path / "kvsim"
    if script is not None:
        named.write_text(f"#!/bin/sh\n[ $1 = policies ] && {script}\n")
        named.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "kvsim", "policies"], capture_output=True, text=True,
        env=os.environ | {"KVSIM_PROGRAM": str(named)},
    )  # fmt: skip
    assert done.returncode == status
    assert says in done.stderr and done.stderr.count("\n") == (status == 1)


def test_all_of_the_package_is_imported_without_torch():
    code = "import sys; sys.modules['torch'] = None; from kvsim import *; print(load.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "load\n", done.stderr


def test_the_program_next_to_the_python_is_found_without_a_path(tmp_path, monkeypatch):
    monkeypatch.delenv("KVSIM_PROGRAM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert Path(find_program()).parent == Path(sysconfig.get_path("scripts"))


def test_a_program_built_in_the_sources_comes_before_an_installed_one(tmp_path, monkeypatch):
    monkeypatch.delenv("KVSIM_PROGRAM", raising=False)
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "kvsim").touch()
    (tmp_path / "within").mkdir()
    monkeypatch.chdir(tmp_path / "within")
    assert find_program() == str(tmp_path / "build" / "kvsim")


def test_a_function_of_models_says_what_it_needs():
    lacking = "import sys; sys.modules['torch'] = None; import kvsim; kvsim.recording"
    done = subprocess.run([sys.executable, "-c", lacking], capture_output=True, text=True)
    last = done.stderr.splitlines()[-1]
    assert last.endswith("kvsim.recording needs it: pip install 'kvsim[record]'")
