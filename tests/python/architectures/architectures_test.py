"""What comes of each kind of model is what python/architectures.md says."""

import re

import campaign
import page
import pytest
import small_models

from conftest import needs_program
from nightly import sample_of

TEXT = page.PAGE.read_text()
ENTRIES = page.entries(TEXT)

# Ten that differ: in masks, experts, positions, memory layout, layers that do not attend, refusals.
SAMPLE = [
    "llama", "gemma3_text", "gpt2", "opt", "mixtral", "mistral", "jetmoe", "jamba", "diffllama",
    "bloom",
]  # fmt: skip
(NAMED,) = re.findall(r"\*\*(transformers [\d.]+\S*)\*\*", TEXT)
AGAIN = "make it again with python tests/python/architectures/page.py"


@needs_program
@pytest.mark.parametrize("kind", sample_of(SAMPLE, small_models.kinds()))
def test_a_kind_is_recorded_or_refused_as_the_page_says(kind):
    outcome = campaign.try_kind(kind)
    assert outcome.failures == ()
    if page.made_with() != NAMED:
        return  # of another release the page says nothing, but nothing may fail
    assert kind in ENTRIES, f"{page.PAGE.name} has no line of {kind}; {AGAIN}"
    assert page.entries(page.render([outcome]))[kind] == ENTRIES[kind], AGAIN


def test_the_page_has_a_line_of_each_kind_of_the_release_that_it_names():
    kinds = {*small_models.kinds()}
    new, gone = sorted(kinds - {*ENTRIES}), sorted({*ENTRIES} - kinds)
    if page.made_with() != NAMED:
        pytest.skip(f"the page is of {NAMED}; {page.made_with()} adds {new} and lacks {gone}")
    assert (new, gone) == ([], []), AGAIN


def test_the_page_is_read_as_it_is_written():
    refusal = "BloomForCausalLM does not use transformers' AttentionInterface"
    outcomes = [
        campaign.Outcome("a", is_recorded=True),
        campaign.Outcome("b", is_recorded=True, limits=("a long limit " * 20, "another")),
        campaign.Outcome("c", reason=refusal),
        campaign.Outcome("d", is_tried=False, reason="cannot be built small: it is large"),
        campaign.Outcome("e", failures=("recording: TypeError: no",)),
    ]
    found = page.entries(page.render(outcomes))
    assert [*found] == [outcome.kind for outcome in outcomes]
    assert found["a"] == "## Recorded - `a`"
    assert found["b"].endswith("a long limit ; another")
    assert found["c"].startswith("**The model does not use transformers' AttentionInterface.**")
    assert found["d"] == "## Not tried - `d`: cannot be built small: it is large"
    assert found["e"].endswith("to be mended - `e`: recording: TypeError: no")
    assert max(map(len, page.render(outcomes).splitlines())) <= page.WIDTH
