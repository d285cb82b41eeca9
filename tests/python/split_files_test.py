"""POLICY@file: what kvsim.head_budgets writes, in replay and in a running model."""

import json

import numpy as np
import pytest
import torch

import kvsim
from conftest import SAMPLE
from kvsim.closed_loop import evicting
from kvsim.report.style.labels import is_named, labels
from record_zoo import build, tokens

LENGTH, PROMPT = 60, 40
DIGEST = "0" * 64


@pytest.fixture(scope="module")
def budgets(tmp_path_factory):
    """The file of a trace in prefill mode, with the array in it."""
    path = tmp_path_factory.mktemp("budgets") / "budgets.npy"
    curves = kvsim.curve(SAMPLE, policies="window", mode="prefill", progress=False)
    array = kvsim.head_budgets(curves, trace=SAMPLE)
    np.save(path, array)
    return path, array


def test_a_sweep_keeps_what_head_budgets_writes(budgets):
    path, array = budgets
    rows = kvsim.sweep(SAMPLE, f"window@file:{path}", "96", mode="prefill", progress=False)
    for _, text in rows.groupby("sequence"):
        held = np.zeros((4, 4))
        held[text.layer, text.kv_head] = text.peak_tokens
        assert held.sum() == 96 * 16 and held.std() > 5
        # 96 of 384 tokens: a ratio of 75%.
        np.testing.assert_allclose(held, (1 - array[74]) * 384, atol=1)
    assert rows.policy.str.match(r"window@file:file=.*,sha256=[0-9a-f]{64}$").all()
    assert (rows.budget == 96).all()


def test_a_changed_file_is_another_policy_and_the_same_goes_on(tmp_path):
    path, output = tmp_path / "weights.json", tmp_path / "r.sqlite"
    how = dict(output=output, progress=False, sequences="copied-segment")
    weights = [[1, 2, 3, 4]] * 4
    path.write_text(json.dumps(weights))
    first = kvsim.sweep(SAMPLE, f"window@file:{path}", "64", **how)
    again = kvsim.sweep(SAMPLE, "window", "64", allocate=f"file:{path}", **how)
    assert set(first.policy) == set(again.policy)
    path.write_text(json.dumps(weights).replace("4", "5"))
    changed = kvsim.sweep(SAMPLE, f"window@file:{path}", "64", **how)
    assert not set(first.policy) & set(changed.policy)
    with pytest.raises(kvsim.DataError, match="it has changed"):
        kvsim.sweep(SAMPLE, first.policy.iloc[0], "64", **how)
    np.save(tmp_path / "small.npy", np.ones((3, 4), np.float32))
    with pytest.raises(kvsim.DataError, match="the 4 layers of the model, found 3"):
        kvsim.sweep(SAMPLE, f"window@file:{tmp_path / 'small.npy'}", "64", **how)


def weights_of(tmp_path, layers=3, heads=2):
    path = tmp_path / "weights.npy"
    np.save(path, 1 + np.arange(layers * heads, dtype=np.float64).reshape(layers, heads))
    return path


@pytest.mark.parametrize("loop", ["imposed", "adaptive"])
def test_a_running_model_has_the_budgets_of_the_file(loop, tmp_path):
    path = weights_of(tmp_path)
    model, ids = build("llama"), tokens(LENGTH)
    how = dict(mode="prefill", prompt_length=PROMPT, names=["a"], progress=False, loop=loop)
    found = kvsim.evaluate(model, ids, f"window@file:{path}", "7", **how)
    assert found.kept_overlap.tolist() == [1]
    assert "sha256=" in found.policy.iloc[0]
    np.save(path, np.ones((2, 2)))
    with pytest.raises(kvsim.DataError, match="the 3 layers of the model, found 2"):
        kvsim.evaluate(model, ids, f"window@file:{path}", "7", **how)


def test_an_evicting_model_has_the_budgets_of_the_file(tmp_path):
    path = weights_of(tmp_path)
    model, ids = build("llama"), tokens(LENGTH)
    how = dict(mode="prefill", prompt_length=PROMPT)
    with evicting(model, f"window@file:{path}", 7, **how) as cache, torch.no_grad():
        model(ids)
        held = [len(cache.kept(layer, head)[0]) for layer in range(3) for head in range(2)]
    assert held == [2, 4, 6, 8, 10, 12]


def test_duoattention_keeps_whole_texts_in_retrieval_heads(tmp_path):
    path = tmp_path / "full_attention_heads.tsv"
    np.savetxt(path, np.array([[0.9, 0.1], [0.0, 1.0], [0.2, 0.3]]), delimiter="\t")
    model, ids = build("llama"), tokens(LENGTH)
    how = dict(names=["a"], progress=False, loop="adaptive")
    # Two heads of 60 tokens, four of 2 + 7.
    policy = f"duo:file={path},sinks=2,recent=7"
    found = kvsim.evaluate(model, ids, policy, str((2 * 60 + 4 * 9) // 6), **how)
    assert found.policy.iloc[0].startswith("sink:sinks=2,positions=text@duo:file=")
    assert found.kept_overlap.tolist() == [1]
    with pytest.raises(kvsim.UsageError, match=r"sinks \+ recent = 9"):
        kvsim.evaluate(model, ids, policy, "8", **how)


def test_figures_name_a_split_by_its_file():
    first = f"window@file:file=/a/long/path/first.npy,sha256={DIGEST}"
    second = first.replace("first", "second")
    assert list(labels([first]).values()) == ["window@file"]
    assert list(labels([first, second]).values()) == [
        "window@file file=first.…",
        "window@file file=second…",
    ]
    assert is_named(first, "window@file") and is_named(first, "window")
    assert not is_named(first, "window@duo")
    assert not is_named(first, "window@file:/a/long/path/second.npy")
    assert is_named(first, "window@file:/a/long/path/first.npy")
