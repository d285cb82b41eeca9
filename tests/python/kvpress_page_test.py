"""The page of presses names all of kvpress, and says what becomes of each."""

from pathlib import Path

import kvpress
import pytest

import kvsim
from conftest import SAMPLE
from kvpress_presses import HEADER, NO_PRESSES, PRESSES, answer, example, row
from nightly import a_third_by_day

PAGE = Path(__file__).parents[2] / "python" / "kvpress.md"
ONCE = {"mode": "prefill", "eviction_interval": "never"}


def presses_below(cls):
    """The presses of kvpress that derive from a class, exported or not."""
    below = [each for each in cls.__subclasses__() if each.__module__.startswith("kvpress.")]
    return {each.__name__ for each in below}.union(*map(presses_below, below))


def test_the_table_names_the_presses_of_kvpress():
    there = (set(kvpress.__all__) | presses_below(kvpress.BasePress)) - NO_PRESSES
    new, gone = sorted(there - set(PRESSES)), sorted(set(PRESSES) - there)
    assert not new, f"add to PRESSES of kvpress_presses.py, and its lines to the page: {new}"
    assert not gone, f"remove from PRESSES of kvpress_presses.py, and from the page: {gone}"


def test_the_page_says_what_becomes_of_each_press():
    found = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    expected = [*HEADER, *map(row, PRESSES)]
    wrong = [line for line in expected if line not in found]
    assert not wrong, "python/kvpress.md lacks\n" + "\n".join(wrong)
    assert found == expected


@a_third_by_day
@pytest.mark.parametrize(
    "name", [name for name in PRESSES if answer(name, in_model=False) == "yes"]
)
def test_a_press_of_a_trace_cuts_the_prompt_of_the_sample(name):
    policy = kvsim.from_kvpress(example(name))
    how = {"sequences": "held-out-text", "layers": "1", "heads": "0", "threads": 1} | ONCE
    (found,) = kvsim.sweep(SAMPLE, [policy], ["20%"], **how).itertuples()
    assert found.budget == 77
    # Whole chunks of 20 tokens are up to one chunk less.
    assert 384 - 77 <= found.evictions <= 384 - 57


def test_specs_of_the_table_are_of_policies():
    words = {word for known in PRESSES.values() for word in known.equal.split("`")[1::2]}
    for spec in sorted(
        word for word in words if word[0].isalpha() and "=slot" not in word and "PATH" not in word
    ):
        assert kvsim.sweep(
            SAMPLE, [spec], ["20%"], sequences="held-out-text", layers="1", heads="0", **ONCE
        ).budget.tolist() == [77]
