"""Policies and selectors of installed packages: found, named, refused, and part of the digest."""

import importlib
import os
import shutil
import subprocess
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

import kvsim
from conftest import SAMPLE
from kvsim.policy import entry_points, listing, packages
from kvsim.program import find_program

ENGINE = pytest.importorskip("kvsim._engine")
COMPILER = shutil.which("cc") or shutil.which("gcc")
POLICY = """
import kvsim

class {cls}(kvsim.Policy):
    "Tokens with the most attention of late."
    name = "{name}"

    def __init__(self, budget, seed=0, decay=0.9):
        self.decay = decay

    def update(self, step, scores):
        scores *= self.decay
        scores += step.attention
"""
SELECTOR = """
import kvsim

class Newest(kvsim.Selector):
    name = "newest-pages"

    def __init__(self, k=8, page=4):
        self.count = -(-k // page)

    def choose(self, step):
        return step.pages[-self.count:]
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Writes a package with its metadata into a folder of sys.path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("KVSIM_NO_PLUGINS", raising=False)
    modules = []

    def installed(package, source, version="1.2", **groups):
        module = package.replace("-", "_")
        modules.append(module)
        (tmp_path / f"{module}.py").write_text(source)
        for old in tmp_path.glob(f"{module}-*.dist-info/*"):
            old.unlink()
        info = tmp_path / f"{module}-{version}.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
        )
        lines = [f"[kvsim.{group}]\n{line}" for group, line in groups.items()]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
        forget()
        return tmp_path

    yield installed
    for module in modules:
        sys.modules.pop(module, None)
    forget()


def forget():
    packages._read.cache_clear()
    entry_points._failures.clear()
    importlib.invalidate_caches()


@pytest.fixture(scope="module")
def trace():
    query, key, value = np.random.default_rng(3).normal(size=(3, 2, 60, 8))
    return kvsim.Trace.from_arrays(query, key, value, prompt_length=20)


def test_a_policy_of_a_package_is_swept_by_its_name(install, trace):
    install(
        "swept-package",
        POLICY.format(cls="Swept", name="swept"),
        policies="swept = swept_package:Swept",
    )
    assert "swept" in dir(kvsim.specs) and "swept_package" not in sys.modules
    frame = kvsim.sweep(trace, ["swept:decay=0.5", "swept:decay={0.9,1}+protect:first=2"], [9])
    assert sorted(frame.policy.unique()) == [
        "swept:decay=0.5", "swept:decay=0.9+protect:first=2,last=0.1",
        "swept:decay=1+protect:first=2,last=0.1",
    ]  # fmt: skip
    row = kvsim.policies().set_index("name").loc["swept"]
    assert row.origin == "swept-package 1.2" and row.keeps.startswith("Tokens with the most")
    assert kvsim.specs.swept(decay=0.5) == "swept:decay=0.5"
    loaded = sys.modules["swept_package"].Swept
    assert kvsim.sweep(trace, loaded, [9]).policy_code.equals(
        kvsim.sweep(trace, "swept", [9]).policy_code
    )


def test_workers_replay_the_policy_of_a_package(install, trace):
    install(
        "sent-package", POLICY.format(cls="Sent", name="sent"), policies="sent = sent_package:Sent"
    )
    here = kvsim.sweep(trace, "sent", [9])
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        there = kvsim.sweep(trace, "sent", [9], executor=executor)
    assert there.attention_recall.equals(here.attention_recall)
    assert there.policy_code.equals(here.policy_code)


def test_a_selector_of_a_package_chooses(install, trace):
    install("choosing-package", SELECTOR, selectors="newest-pages = choosing_package:Newest")
    frame = kvsim.fetch(trace, "newest-pages:k=8", resident=32, replace="lru")
    assert len(frame) == 2 and set(frame["select"]) == {"newest-pages:k=8,page=4"}


def test_the_digest_covers_the_package_its_version_and_the_module(install):
    def code(version, more=""):
        source = POLICY.format(cls="Digested", name="digested") + more
        install(
            "digested-package", source, version, policies="digested = digested_package:Digested"
        )
        sys.modules.pop("digested_package", None)
        importlib.import_module("digested_package")
        return ENGINE.specs(["digested"], "uniform")[0]["policy_code"]

    first = code("1.2")
    assert code("1.2") == first
    assert len({first, code("1.3"), code("1.2", "\nHELPER = 1\n")}) == 3


@pytest.mark.parametrize(
    ("source", "line", "said"),
    [
        ("import absent_module", "broken = broken_package:Broken", "No module named"),
        ("raise SystemExit(3)", "broken = broken_package:Broken", "SystemExit: 3"),
        ("Broken = 3", "broken = broken_package:Broken", "found int"),
        ("class Broken: pass", "broken = broken_package:Broken", "a class below kvsim.Policy"),
        ("x = 1", "broken = broken_package:Broken", "has no attribute 'Broken'"),
        (
            POLICY.format(cls="Broken", name="otherwise"), "broken = broken_package:Broken",
            "is 'otherwise'",
        ),
        ("Broken = '/none/libnone.so'", "broken = broken_package:Broken", "/none/libnone.so"),
    ],
)  # fmt: skip
def test_a_package_that_does_not_work_is_named_and_stops_nobody_else(
    install, trace, source, line, said
):
    install("broken-package", source, policies=line)
    install(
        "sound-package",
        POLICY.format(cls="Sound", name="sound"),
        policies="sound = sound_package:Sound",
    )
    with pytest.raises(kvsim.UsageError) as raised:
        kvsim.sweep(trace, ["broken"], [9])
    message = str(raised.value)
    assert "policy 'broken' of broken-package 1.2" in message and said in message
    assert "\n" not in message and ";" in message
    with pytest.warns(kvsim.KvsimWarning, match="policy 'broken' of broken-package 1.2"):
        names = set(kvsim.policies().name)
    assert "sound" in names and "broken" not in names
    assert not hasattr(kvsim.specs, "broken")


def test_names_that_are_taken_are_reported(install, trace):
    install(
        "taking-package",
        POLICY.format(cls="Taking", name="h2o"),
        policies="h2o = taking_package:Taking",
    )
    install(
        "one-package", POLICY.format(cls="Both", name="both"), policies="both = one_package:Both"
    )
    install(
        "two-package", POLICY.format(cls="Both", name="both"), policies="both = two_package:Both"
    )
    assert len(kvsim.sweep(trace, "h2o", [9])) == 2
    with pytest.warns(kvsim.KvsimWarning) as warned:
        kvsim.policies()
    said = [str(each.message) for each in warned]
    assert any("'h2o' of taking-package 1.2" in line and "built in" in line for line in said)
    with pytest.raises(kvsim.UsageError, match=r"package 1.2 and .*-package 1.2; uninst"):
        kvsim.sweep(trace, "both", [9])


def test_discovery_can_be_switched_off(install, trace, monkeypatch):
    install(
        "hidden-package",
        POLICY.format(cls="Hidden", name="hidden"),
        policies="hidden = hidden_package:Hidden",
    )
    monkeypatch.setenv("KVSIM_NO_PLUGINS", "1")
    with pytest.raises(kvsim.UsageError, match="unknown policy 'hidden'"):
        kvsim.sweep(trace, "hidden", [9])
    assert "hidden" not in dir(kvsim.specs)
    monkeypatch.setenv("KVSIM_NO_PLUGINS", "0")
    assert len(kvsim.sweep(trace, "hidden", [9])) == 2


def test_an_import_reads_no_metadata_and_loads_no_package(install):
    folder = install("idle-package", "raise RuntimeError", policies="idle = idle_package:Idle")
    looks = (
        f"import sys; sys.path.insert(0, {str(folder)!r}); import kvsim\n"
        "from kvsim.policy import packages\n"
        "assert packages._read.cache_info().misses == 0\n"
        "assert 'idle' in dir(kvsim.specs) and 'idle_package' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", looks], check=True)


def test_the_program_gets_a_listing_and_where_code_is(install, capsys):
    install(
        "listed-package", "print('noise')\n" + POLICY.format(cls="Listed", name="listed"),
        policies="listed = listed_package:Listed",
    )  # fmt: skip
    install("worse-package", "import absent_module", policies="worse = worse_package:Worse")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        listing.main(["list"])
    text = capsys.readouterr().out
    assert "listed:decay=0.9\n" in text and "from                 listed-package 1.2\n" in text
    assert "left out: policy 'worse' of worse-package 1.2" in text and "noise" not in text
    listing.main(["explain", "listed"])
    assert capsys.readouterr().out in text
    listing.main(["find", "policy", "listed"])
    assert capsys.readouterr().out == "package\nlisted-package 1.2\n"
    listing.main(["find", "policy", "worse"])
    assert capsys.readouterr().out.startswith("error\npolicy 'worse' of")
    listing.main(["find", "policy", "unknown"])
    assert capsys.readouterr().out == ""


@pytest.fixture
def program(install, monkeypatch):
    """Runs the program with the Python of the test."""
    package = Path(kvsim.__file__).parents[1]
    monkeypatch.setenv("KVSIM_PYTHON", sys.executable)

    def run(folder, *words):
        monkeypatch.setenv("PYTHONPATH", f"{package}{os.pathsep}{folder}")
        return subprocess.run([find_program(), *words], capture_output=True, text=True, cwd=folder)

    return run


def test_the_program_lists_the_package_and_says_what_runs_it(install, program):
    source = POLICY.format(cls="Shown", name="shown")
    folder = install("shown-package", source, policies="shown = shown_package:Shown")
    explained = program(folder, "policies", "shown").stdout
    assert "from                 shown-package 1.2\n" in explained
    assert program(folder, "policies").stdout.endswith(explained)
    done = program(
        folder, "sweep", SAMPLE, "--policies", "shown", "--budgets", "9", "-o", "r.sqlite"
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "package shown-package 1.2" in done.stderr and "kvsim.sweep()" in done.stderr


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
