"""Selectors of Python: they see what those of the engine see, and choose what they say."""

import numpy as np
import pytest

import kvsim
from conftest import same


@pytest.fixture(scope="module")
def trace():
    query, key, value = np.random.default_rng(3).normal(size=(3, 2, 60, 8))
    return kvsim.Trace.from_arrays(query, key, value, prompt_length=20)


class Exact(kvsim.Selector):
    """The exact choice."""

    name = "exact"

    def __init__(self, k=8, page=4):
        self.count = -(-k // page)

    def choose(self, step):
        return step.pages[np.argsort(-step.attention)[: self.count]]


class Bounds(kvsim.Selector):
    """Quest, from the step's keys."""

    name = "bounds"

    def __init__(self, k=8, page=4):
        self.count, self.page = -(-k // page), page

    def choose(self, step):
        whole = len(step.keys) // self.page * self.page
        pages = step.keys[:whole].reshape(-1, self.page, step.keys.shape[1])[: len(step.pages)]
        low, high = pages.min(axis=1), pages.max(axis=1)
        queries = step.queries[:, None, :].astype(float)
        score = np.maximum(queries * low, queries * high).sum(axis=(0, 2))
        return np.argsort(-score)[: self.count]

    def summary_bytes(self, num_tokens, head_dim, element_bytes):
        return num_tokens // self.page * 2 * head_dim * element_bytes


@pytest.mark.parametrize("mode", ["stream", "prefill"])
@pytest.mark.parametrize(
    ("ours", "theirs"), [(Exact, "topk:k=8,page=4"), (Bounds, "quest:k=8,page=4")]
)
def test_the_same_choice_has_the_same_rows(trace, ours, theirs, mode):
    found = kvsim.fetch(trace, [ours], [12, "50%"], "all", mode)
    expected = kvsim.fetch(trace, theirs, [12, "50%"], "all", mode)
    assert set(found["select"]) == {f"{ours.name}:k=8,page=4"}
    assert set(found["policy_code"]).isdisjoint(expected["policy_code"])
    same(*(frame.assign(select="", policy_code="") for frame in (found, expected)))


def test_parameters_make_the_spec_and_the_page_is_one_in_any_case(trace):
    seen = []

    class Every(kvsim.Selector):
        def __init__(self, stride: int = 2, seed=0, weight=0.5, first=True):
            seen.append((stride, seed, weight, first, self.scale))
            self.stride = stride

        def choose(self, step):
            return list(step.pages[:: self.stride])

    frame = kvsim.fetch(trace, [Every, "every:stride=5,first=no"], curve=True, page=2)
    assert set(frame["select"]) == {
        "every:stride=2,weight=0.5,first=yes,page=2", "every:stride=5,weight=0.5,first=no,page=2",
    }  # fmt: skip
    assert {(of[0], of[3]) for of in seen} == {(2, True), (5, False)}
    assert len({of[1] for of in seen}) == 3  # of two units, and of what only says its bytes
    assert frame[frame["select"].str.contains("stride=2")].attended_mean.min() > 15


@pytest.mark.parametrize("mode", ["stream", "prefill"])
def test_every_page_is_summed_up_once_when_it_is_complete(trace, mode):
    class Sums(kvsim.Selector):
        """Quest, from summaries of pages."""

        def __init__(self, k=8):
            self.count, self.low, self.high = -(-k // 4), [], []

        def end_page(self, keys):
            assert keys.shape == (4, 8) and not keys.flags.writeable
            self.low.append(keys.min(axis=0))
            self.high.append(keys.max(axis=0))

        def choose(self, step):
            assert len(self.low) == len(step.pages) == step.index // 4
            if not self.low:
                return []
            queries = step.queries[:, None, :].astype(float)
            score = np.maximum(queries * self.low, queries * self.high).sum(axis=(0, 2))
            return np.argsort(-score)[: self.count]

    found = kvsim.fetch(trace, Sums, [12, "50%"], "lru", mode, page=4)
    expected = kvsim.fetch(trace, "quest:k=8,page=4", [12, "50%"], "lru", mode)
    columns = ["misses", "attention_recall", "output_error_sq", "resident"]
    assert found[columns].equals(expected[columns])


def test_a_step_shows_no_later_token_and_nothing_can_be_written(trace):
    class Looks(kvsim.Selector):
        def choose(self, step):
            assert step.keys.shape == (step.index + 1, 8)
            base = step.keys if step.keys.base is None else step.keys.base
            assert step.index == 59 or not np.asarray(base)[step.index + 1 :].any()
            for array in (step.pages, step.attention, step.queries, step.keys):
                assert array.size == 0 or not array.flags.writeable
            assert list(step.pages) == list(range(step.index))

    frame = kvsim.fetch(trace, Looks, resident=1, threads=2)
    assert (frame.accesses == 0).all() and (frame.attended_mean == 1).all()


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([60], "expected pages out of step.pages, found 60"),
        ([0.5], "expected page numbers"),
        ([[0]], "expected page numbers"),
        ([0, 1, 2], "at most the 2 pages of k, found 3"),
    ],
)
def test_a_wrong_choice_is_an_error_with_a_note(trace, returned, message):
    class Wrong(kvsim.Selector):
        def __init__(self, k=2):
            pass

        def choose(self, step):
            return returned if step.index == 40 else []

    with pytest.raises(ValueError, match=message) as raised:
        kvsim.fetch(trace, Wrong, "50%")
    assert "selector wrong:k=2,page=1, sequence layer 0 KV head" in raised.value.__notes__[0]
    assert raised.value.__notes__[0].endswith("step 40")


def test_names_of_the_program_and_classes_of_another_kind_are_refused(trace):
    with pytest.raises(kvsim.UsageError, match="'quest' of Python: a selector that is built in"):

        class Quest(kvsim.Selector):
            def choose(self, step):
                return []

    with pytest.raises(TypeError, match=r"expected a class below kvsim\.Selector"):
        kvsim.fetch(trace, kvsim.Policy, 9)
    with pytest.raises(kvsim.UsageError, match="selector exact has no parameter 'n'"):
        kvsim.fetch(trace, "exact:n=2", 9)
