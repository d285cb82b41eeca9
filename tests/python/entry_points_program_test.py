"""The program lists policies of installed packages, and runs those that are compiled."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kvsim
from conftest import SAMPLE
from declared_packages import POLICY
from kvsim.program import find_program

COMPILER = shutil.which("cc") or shutil.which("gcc")


@pytest.fixture
def program(install, monkeypatch):
    """Runs the program with the Python of the test."""
    package = Path(kvsim.__file__).parents[1]
    monkeypatch.setenv("KVSIM_PYTHON", sys.executable)

    def run(folder, *words, below="."):
        monkeypatch.setenv("PYTHONPATH", f"{package}{os.pathsep}{folder}")
        return subprocess.run(
            [find_program(), *words], capture_output=True, text=True, cwd=folder / below
        )

    return run


def test_the_program_lists_the_package_and_says_what_runs_it(install, program):
    noise = "import os\nprint('noise')\nos.write(1, b'file\\n/none\\n')\n"
    source = noise + POLICY.format(cls="Shown", name="shown")
    folder = install("shown-package", source, policies="shown = shown_package:Shown")
    explained = program(folder, "policies", "shown").stdout
    assert "from                 shown-package 1.2\n" in explained
    assert program(folder, "policies").stdout.endswith(explained)
    done = program(
        folder, "sweep", SAMPLE, "--policies", "shown", "--budgets", "9", "-o", "r.sqlite"
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "package shown-package 1.2" in done.stderr and "kvsim.sweep()" in done.stderr
    (folder / "c.yaml").write_text("policies: shown\nbudgets: 9\noutput: r.sqlite\n")
    done = program(folder, "sweep", SAMPLE, "--config", "c.yaml")
    assert done.returncode == 2 and "package shown-package 1.2" in done.stderr
    (folder / "shown_package.py").write_text("raise RuntimeError")
    (folder / "below").mkdir()
    (folder / "below" / "numpy.py").write_text("raise RuntimeError('of the folder')")
    done = program(folder, "policies", "shown", below="below")
    assert done.returncode == 2 and "policy 'shown' of shown-package 1.2" in done.stderr


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_the_program_runs_a_compiled_policy_of_a_package(install, program):
    name = "decayed-attention"
    line = f"{name} = compiled_package:plugin"
    source = (
        "from pathlib import Path\n\ndef plugin():\n    return Path(__file__).parent / 'lib.so'\n"
    )
    folder = install("compiled-package", source, policies=line)
    example = Path(__file__).parents[1] / "package" / "decayed_attention.c"
    command = [COMPILER, "-std=c99", "-shared", "-fPIC", f"-I{kvsim.get_include()}", example]
    subprocess.run([*command, "-o", folder / "lib.so", "-lm"], check=True)
    assert f"from                 compiled-package 1.2 ({folder}/lib.so)" in (
        program(folder, "policies", name).stdout
    )
    words = ["--policies", name, "--budgets", "9", "--layers", "0", "-o", "r.sqlite"]
    done = program(folder, "sweep", SAMPLE, *words)
    assert done.returncode == 0, done.stderr
    assert name in kvsim.load(folder / "r.sqlite").replay.policy[0]
