"""Spaces of kvsim.tune: what they mean, and which are refused."""

import re

import numpy as np
import pandas as pd
import pytest

import kvsim
from conftest import HERE
from learned_support import arrays_of, header_of, write

pytest.importorskip("optuna")
from kvsim.tune.halving import rungs
from kvsim.tune.ranking import best_of, mean_losses
from kvsim.tune.settings import budgets_around, refusal, space_text
from kvsim.tune.space import DEFAULT, parse_space
from kvsim.tune.texts import Text, split_texts

PAGE = HERE.parents[1] / "python" / "tune.md"


def space_of(text, has_model=False):
    return parse_space(text, refusal(has_model))


def specs_of(text):
    """All specs of a finite space, as written."""
    space = space_of(text)

    def spec(chosen):
        def choose(hole):
            value = chosen[hole.name]
            assert value in hole.choices or hole.low <= value <= hole.high
            return value if hole.choices else hole.written(value)

        return space.spec(choose)

    found = [spec(chosen) for chosen in space.every()]
    assert len(found) == space.size
    return found


def test_a_finite_space_has_each_of_its_specs_once():
    assert specs_of("h2o:recent={0,8};sink:sinks={1..3};lru") == [
        "h2o:recent=0", "h2o:recent=8", "sink:sinks=1", "sink:sinks=2", "sink:sinks=3", "lru",
    ]  # fmt: skip
    assert specs_of("snapkv:window={4,8},kernel={1,3}")[1] == "snapkv:window=4,kernel=3"


def test_additions_are_optional_and_a_policy_has_one_split_at_most():
    found = specs_of("lru;+protect:first={0,4};+shared;@pyramid;@cake")
    assert found[:3] == ["lru", "lru@pyramid", "lru@cake"]
    assert len(found) == len(set(found)) == 3 * 2 * 3
    assert "lru+protect:first=4+shared@cake" in found


def test_a_policy_that_has_a_split_keeps_it_with_what_is_added():
    assert specs_of("lru@cake;+protect:first=4;@pyramid;tova") == [
        "lru@cake", "lru+protect:first=4@cake", "tova", "tova@pyramid", "tova+protect:first=4",
        "tova+protect:first=4@pyramid",
    ]  # fmt: skip


def test_an_addition_is_left_out_where_it_cannot_change_a_policy():
    found = specs_of("lru;expected-attention;+critical")
    assert found.count("lru+critical") == 1


def test_a_range_of_reals_is_written_with_a_point_and_has_no_end_of_specs():
    space = space_of("h2o:recent={0..0.9}")
    (hole,) = space.policies[0].holes
    assert space.size == float("inf")
    written = [hole.written(value) for value in (0, 0.123456, 0.9, 0.00001)]
    assert written == ["0", "0.1235", "0.9", "0.00001"]


def test_the_space_of_files_on_the_page_is_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    header = header_of(["now"])
    write(tmp_path / "model.npz", header, arrays_of(header))
    for name in ("head.npy", "group.npy"):
        np.save(name, np.ones((4, 4)))
    (text,) = re.findall(r"```text\n(.*?)\n```", PAGE.read_text())
    assert "learned:" in text and "@file:" in text
    specs = set(space_of(text, has_model=True).samples())
    assert {"learned:file=model.npz,recent=0.9", "tova@file:group.npy", "tova@cake"} < specs


def test_the_default_space_can_be_searched_with_pages_too():
    assert len(space_of(DEFAULT, has_model=True).splits) == 3
    space = parse_space(space_text(None, 16), refusal(True, 16))
    assert space.policies and not space.splits


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "at least one policy"),
        ("+protect", "at least one policy"),
        ("h20", "did you mean 'h2o'"),
        ("h2o:recent={0..0.9", "is not closed"),
        ("h2o:recent=0}", "has no '{' before it"),
        ("h2o:recent={}", "an empty entry"),
        ("h2o:recent={0.9..0}", "the range is empty"),
        ("h2o:recent={a..b}", "expected a range of numbers"),
        ("sink:sinks={-4..4}", "expected a range of numbers"),
        ("snapkv:pool={max,most}", "most"),
        ("sink:sinks={1..9999999}", "sinks"),
        ("optimal", "sees the future"),
        ("full", "does not keep to a budget"),
        ("topk", "keep"),
        ("all", "all"),
        ("lru;+protekt", "did you mean 'protect'"),
        ("lru;@pyramids", "pyramid"),
    ],
)
def test_a_space_that_cannot_be_meant_is_one_line(text, hint):
    with pytest.raises(kvsim.UsageError) as refused:
        space_of(text)
    assert hint in str(refused.value) and "\n" not in str(refused.value)


def test_what_cannot_be_imposed_is_refused_for_a_model_alone():
    space_of("h2o+quant:bits={4,8}")
    with pytest.raises(kvsim.UsageError, match=r"the numbers of \+quant"):
        space_of("h2o+quant:bits={4,8}", has_model=True)


def named(*ids):
    return [Text(f"t{index}", text_id) for index, text_id in enumerate(ids)]


def names(texts):
    return [text.name for text in texts]


@pytest.mark.parametrize(
    ("held_out", "expected"),
    [
        (None, ["t4", "t5"]),
        (0.5, ["t3", "t4", "t5"]),
        ("50%", ["t3", "t4", "t5"]),
        ("1%", ["t5"]),
        ("99%", ["t1", "t2", "t3", "t4", "t5"]),
        ("t0", ["t0"]),
        (["t2", "t0"], ["t0", "t2"]),
    ],
)
def test_held_out_texts_are_a_share_of_the_last_or_named(held_out, expected):
    searched, held = split_texts(named(*"abcdef"), held_out)
    assert names(held) == expected
    assert sorted(names(searched) + names(held)) == names(named(*"abcdef"))


@pytest.mark.parametrize(
    ("ids", "held_out", "hint"),
    [
        ("a", None, "at least two"),
        ("ab", "t7", "no text t7"),
        ("ab", ["t0", "t1"], "no text is left to search on"),
        ("ab", [], "no text is left to hold out"),
        ("ab", "0%", "above 0% and below 100%"),
        ("ab", 1.5, "above 0% and below 100%"),
        ("aba", None, "t2 has the tokens of t0, which is searched on"),
    ],
)
def test_no_text_is_searched_on_and_held_out(ids, held_out, hint):
    with pytest.raises(kvsim.UsageError, match=hint):
        split_texts(named(*ids), held_out)


def test_each_rung_halves_the_candidates_and_doubles_the_texts():
    assert rungs(8, 8) == [(8, 2), (4, 4), (2, 8)]
    assert rungs(8, 2) == [(8, 1), (2, 2)]
    assert rungs(8, 1) == [(8, 1)]
    assert rungs(1, 5) == [(1, 5)]


def test_a_spec_without_a_loss_on_one_text_has_no_mean_and_is_the_last():
    losses = {"policy": ["a", "a", "b", "b"], "loss": [0.1, np.nan, 0.3, 0.5]}
    means = mean_losses(pd.DataFrame(losses), "loss", ["a", "b"])
    assert np.isnan(means["a"]) and means["b"] == pytest.approx(0.4)
    assert best_of(means, 2) == ["b", "a"]


def test_the_budgets_of_a_figure_are_legal_ones():
    assert budgets_around("20%", 1) == ["20%", "10%", "40%"]
    assert budgets_around("60%", 1) == ["60%", "30%"]
    assert budgets_around("64", 1) == ["64", "32", "128"]
    assert budgets_around("64", 32) == ["64", "128"]
    assert budgets_around("64KiB", 1) == ["64KiB", "32KiB", "128KiB"]
    assert budgets_around("0.2", 1) == ["0.2", "10%", "40%"]
