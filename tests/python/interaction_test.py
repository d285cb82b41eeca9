"""What each layer costs if it alone evicts, and what two loops keep in common in it."""

import numpy as np
import pytest
import torch

import kvsim
from closed_loop_reference import causal, held, logits_of, replayed, scores
from record_zoo import build, tokens

LENGTH = 40


@pytest.fixture(scope="module")
def model():
    return build("llama")


def recorded(model, ids, path):
    with kvsim.recording(model, path, dtype="float32"):
        model(ids)
    return kvsim.Trace(path)


@pytest.mark.parametrize("policy", ["tova", "h2o"])
def test_each_layer_alone_and_all_together_are_masked_forward_passes(model, policy, tmp_path):
    ids = tokens(LENGTH)
    trace = recorded(model, ids, tmp_path / "t.h5")
    frame = kvsim.layer_interaction(model, ids[0], policy, [6, "40%"], trace=trace)
    assert list(frame.layer) == [0, 1, 2] * 2 and list(frame.budget.unique()) == [6, 16]
    whole = np.broadcast_to(causal(LENGTH, None), (2, LENGTH, LENGTH))
    full = logits_of(model, ids, [whole] * 3)
    for budget, rows in frame.groupby("budget"):
        sees = [held(layer) for layer in replayed(trace, policy, budget)]
        for layer in range(3):
            alone = [sees[other] if other == layer else whole for other in range(3)]
            kl = scores(full, logits_of(model, ids, alone), ids[0].numpy())["kl_mean"]
            assert rows.kl_alone.iloc[layer] == pytest.approx(kl, abs=2e-5) and kl > 1e-4
        joint = scores(full, logits_of(model, ids, sees), ids[0].numpy())["kl_mean"]
        assert rows.kl_joint.to_numpy() == pytest.approx(np.full(3, joint), abs=2e-5)
        assert rows.kl_sum.to_numpy() == pytest.approx(np.full(3, rows.kl_alone.sum()))


def test_all_layers_together_are_what_evaluate_finds_and_one_text_at_a_time(model):
    texts = [tokens(LENGTH, seed)[0] for seed in (1, 2)]
    frame = kvsim.layer_interaction(model, texts, ["topk", "sink"], "20%", names=["a", "b"])
    found = kvsim.evaluate(
        model, texts, ["topk", "sink"], "20%", names=["a", "b"], progress=False
    ).set_index(["sequence", "policy"])
    assert len(frame) == 2 * 2 * 3
    for row in frame.itertuples():
        assert row.kl_joint == pytest.approx(found.kl_mean[row.sequence, row.policy], abs=1e-7)


def test_a_model_of_one_layer_has_nothing_to_interact():
    model = build("llama", num_hidden_layers=1)
    (row,) = kvsim.layer_interaction(model, tokens(LENGTH)[0], "window", 8).itertuples()
    assert row.kl_alone == row.kl_sum == row.kl_joint > 0


def test_layer_0_keeps_the_same_in_both_loops_and_the_mean_is_that_of_evaluate(model):
    ids = tokens(LENGTH)[0]
    frame = kvsim.kept_overlap_by_layer(model, ids, ["window", "tova"], 8, names=["a"])
    shares = frame.set_index(["policy", "layer"]).kept_overlap
    assert (shares["window"] == 1).all()
    tova = next(spec for spec in frame.policy if spec.startswith("tova"))
    assert shares[tova, 0] == 1 and shares[tova, 2] < 1
    found = kvsim.evaluate(model, ids, "tova", 8, loop="adaptive", names=["a"], progress=False)
    assert shares[tova].mean() == pytest.approx(found.kept_overlap.iloc[0])


def test_what_a_loop_refuses_and_what_is_missing_is_said(model):
    ids = tokens(LENGTH)[0]
    with pytest.raises(kvsim.UsageError, match="subgen"):
        kvsim.layer_interaction(model, ids, "subgen", 8)
    with pytest.raises(kvsim.UsageError, match="sees the future"):
        kvsim.kept_overlap_by_layer(model, ids, "optimal", 8)
    with pytest.raises(kvsim.UsageError, match="at least one policy"):
        kvsim.layer_interaction(model, ids, [], 8)
    with pytest.raises(kvsim.UsageError, match="positions"):
        kvsim.layer_interaction(model, torch.full((300,), 5), "window", 8)
