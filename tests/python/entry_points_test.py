"""Policies and selectors of installed packages: found, named, refused, and part of the digest."""

import importlib
import subprocess
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import kvsim
from declared_packages import POLICY, SELECTOR
from kvsim.policy import listing

ENGINE = pytest.importorskip("kvsim._engine")


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
    assert kvsim.replay(trace, "swept", 9, kv_head=0).attention_recall is not None
    row = kvsim.policies().set_index("name").loc["swept"]
    assert row.origin == "swept-package 1.2" and row.keeps.startswith("Tokens with the most")
    assert kvsim.specs.swept(decay=0.5) == "swept:decay=0.5"
    loaded = sys.modules["swept_package"].Swept
    assert kvsim.sweep(trace, loaded, [9]).policy_code.equals(
        kvsim.sweep(trace, "swept", [9]).policy_code
    )


def test_a_package_is_loaded_where_the_caller_is_and_may_replay(install, trace):
    source = POLICY.format(cls="Inner", name="inner") + (
        "import threading\nassert threading.current_thread() is threading.main_thread()\n"
        "frame = kvsim.sweep(kvsim.Trace.from_arrays(*[[[[0.5]] * 9]] * 3), Inner, [4])\n"
    )
    install("inner-package", source, policies="inner = inner_package:Inner")
    assert len(kvsim.sweep(trace, "inner", [9])) == 2


def test_a_class_of_another_module_has_the_version_of_its_package(install, trace):
    folder = install(
        "outer-package", "from outer_code import Outer", policies="outer = outer_package:Outer"
    )
    (folder / "outer_code.py").write_text(POLICY.format(cls="Outer", name="outer"))
    kvsim.sweep(trace, "outer", [9])
    assert kvsim.policies().set_index("name").loc["outer"].origin == "outer-package 1.2"


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
        (
            "class Odd(BaseException):\n    def __str__(self): raise KeyError\nraise Odd",
            "broken = broken_package:Broken", "Odd: without a text",
        ),
    ],
)  # fmt: skip
def test_a_package_that_does_not_work_is_named_and_stops_nobody_else(
    install,
    trace,
    source,
    line,
    said,
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


def test_the_program_gets_a_listing_and_where_code_is(install):
    install(
        "listed-package", POLICY.format(cls="Listed", name="listed"),
        policies="listed = listed_package:Listed",
    )  # fmt: skip
    install("worse-package", "import absent_module", policies="worse = worse_package:Worse")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = listing.answer_to(["list"])
    assert "listed:decay=0.9\n" in text and "from                 listed-package 1.2\n" in text
    assert "left out: policy 'worse' of worse-package 1.2" in text
    assert listing.answer_to(["explain", "listed"]) in text
    assert listing.answer_to(["find", "policy", "listed"]) == "package\nlisted-package 1.2\n"
    for words in (["find", "policy", "worse"], ["explain", "worse"]):
        assert listing.answer_to(words).startswith("error\npolicy 'worse' of")
    assert listing.answer_to(["find", "policy", "unknown"]) == ""
