"""The files of kvsim.second_reading: scores and budgets, whole or not there."""

import hashlib
from pathlib import Path

import h5py
import numpy as np
import pytest

import kvsim
from kvsim.second_reading import run
from kvsim.second_reading.budgets import removed_shares
from record_zoo import build, letters
from second_readings import HEADS, LAYERS, PROMPT, read_again, two_texts


@pytest.fixture(scope="module")
def model():
    return build("llama")


@pytest.fixture(scope="module")
def trace(model, tmp_path_factory):
    return two_texts(model, tmp_path_factory.mktemp("again") / "t.h5")


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_file_says_what_it_is_and_equal_scores_are_equal_bytes(model, trace):
    read_again(model, trace)
    with h5py.File("s.h5") as file:
        about = dict(file.attrs)
        scores = file["sequences/two/layers/2/kv_heads/1/scores"]
        assert scores.shape == (PROMPT,) and scores.dtype == np.float32
    assert about["kvsim_scores_version"] == 1
    assert about["kvsim_scores_version"].dtype == np.int32
    assert about["made_by"].startswith(b"kvsim.second_reading (transformers ")
    assert about["model"] == b"LlamaForCausalLM" and about["reads"] == b"prompt"
    assert about["trace_id"].decode() == kvsim.Trace(trace).trace_id
    text = kvsim.Trace(trace).unit("two").token_ids
    with h5py.File("s.h5") as file:
        digest = file["sequences/two"].attrs["text_id"]
    assert digest.decode() == hashlib.sha256(text.astype("<i4").tobytes()).hexdigest()
    before = Path("s.h5").read_bytes()
    read_again(model, trace)
    assert Path("s.h5").read_bytes() == before


def test_scores_are_of_the_text_that_is_replayed(model, trace):
    read_again(model, trace)
    once = dict(mode="prefill", eviction_interval="never", progress=False)
    rows = kvsim.sweep(trace, "kvzip:file=s.h5", "12", **once)
    assert len(rows) == 2 * LAYERS * HEADS
    with h5py.File("s.h5", "r+") as file:
        for name in ("one", "two"):
            file[f"sequences/{name}"].attrs["text_id"] = "0" * 64
    with pytest.raises(kvsim.DataError, match=r"/sequences/one: .*another text"):
        kvsim.sweep(trace, "kvzip:file=s.h5", "12", **once)


def test_budgets_are_the_shares_that_the_lowest_scores_of_all_heads_leave(model, trace):
    found = read_again(model, trace, sequences=["two"], budgets="b.npy")["two"]
    shares = np.load("b.npy")
    assert shares.shape == (99, LAYERS, HEADS) and shares.dtype == np.float32
    found[..., :4] = np.inf
    lowest = np.sort(found, axis=None)
    for ratio in (1, 40, 99):
        leaving = int(found.size * ratio / 100)
        assert shares[ratio - 1].sum() * PROMPT == pytest.approx(leaving, abs=1e-3)
        if ratio == 40:
            np.testing.assert_allclose(
                shares[ratio - 1], (found < lowest[leaving]).mean(-1), atol=1e-6
            )
    uneven = removed_shares({0: np.eye(2, 5), 1: np.ones((1, 5))}, sinks=1)
    assert uneven.shape == (99, 2, 2) and np.isnan(uneven[:, 1, 1]).all()


def test_an_interrupt_leaves_no_file_and_the_model_as_it_was(model, trace):
    def interrupt(*_):
        raise KeyboardInterrupt

    before = model.config._attn_implementation
    with pytest.raises(KeyboardInterrupt):
        kvsim.second_reading(model, trace, "s.h5", tokenizer=letters(), progress=interrupt)
    assert list(Path().iterdir()) == []
    assert model.config._attn_implementation == before and not model._forward_hooks


def test_a_failure_leaves_no_new_split_next_to_earlier_scores(model, trace, monkeypatch):
    options = {"sequences": "one", "budgets": "b.npy"}
    read_again(model, trace, **options)
    scores, split = Path("s.h5").read_bytes(), Path("b.npy").read_bytes()

    def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(run, "removed_shares", fail)
    with pytest.raises(ZeroDivisionError):
        read_again(model, trace, chunk=9, **options)
    assert Path("s.h5").read_bytes() == scores and Path("b.npy").read_bytes() == split
    assert {path.name for path in Path().iterdir()} == {"s.h5", "b.npy"}


def test_only_earlier_budgets_are_replaced(model, trace):
    for other in (np.zeros(3), np.zeros((98, LAYERS, HEADS)), np.zeros((99, LAYERS, HEADS), int)):
        np.save("b.npy", other)
        with pytest.raises(
            kvsim.UsageError, match=r"budgets: b\.npy: there is a file of that name"
        ):
            read_again(model, trace, sequences="one", budgets="b.npy")
        np.testing.assert_array_equal(np.load("b.npy"), other)
    np.save("b.npy", np.zeros((99, 1, 1)))
    read_again(model, trace, sequences="one", budgets="b.npy")
    assert np.load("b.npy").shape == (99, LAYERS, HEADS)


def test_only_earlier_scores_are_replaced(model, trace):
    Path("s.h5").write_text("mine")
    with pytest.raises(
        kvsim.UsageError, match=r"s\.h5: there is a file of that name that holds no"
    ):
        read_again(model, trace)
    assert Path("s.h5").read_text() == "mine"
