"""A real language model from its GGUF file: recorded, verified, replayed and run with evictions.

SmolLM2-135M-Instruct: 30 layers, 9 query and 3 KV heads, of which four layers are compared.
"""

import json

import numpy as np
import pytest
import torch

import kvsim
from kvsim.model.loading import load_model, load_tokenizer
from kvsim.model.model_id import model_id
from kvsim.record.__main__ import main as record
from nightly import sample_of
from record_zoo import verify_with_program, worst_error
from smollm2 import weights

LAYERS = [0, 9, 18, 29]
MOST_TOKENS = 256
POLICIES = ["optimal", "h2o", "window"]
FACT = "The pass key of Marlow is 48213. "
FILLER = (
    "The harbour lies on the north side of the bay, where the river meets the sea. Ships have "
    "called there since the town was founded, and most of the houses on the quay were built by "
    "merchants. "
)


@pytest.fixture(scope="module")
def model():
    return load_model(str(weights()), "float32", torch.device("cpu"))


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer(str(weights()))


@pytest.fixture(scope="module")
def text():
    """A fact, text, and the question for it."""
    begun = FILLER + FACT + 4 * FILLER + "Question: What is the pass key of Marlow? It is "
    needle = [len(FILLER), len(FILLER + FACT) - 1, "needle"]
    answer = [len(begun), len(begun) + 5, "answer"]
    return {"text": begun + "48213.", "spans": [needle, answer], "name": "harbour"}


@pytest.fixture(scope="module")
def trace(model, tokenizer, text, tmp_path_factory):
    """Of four layers, by the command, whose model and tokenizer need not be loaded again."""
    folder = tmp_path_factory.mktemp("smollm2")
    (folder / "texts.jsonl").write_text(json.dumps(text))
    command = [weights(), "--texts", folder / "texts.jsonl", "-o", folder / "t.h5"]
    command += ["--layers", ",".join(map(str, LAYERS))]
    command += ["--also", "output_projection,residual,output_score_grad"]
    command += ["--gradient-samples", sample_of("1", "4")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kvsim.record.run.load_model", lambda *_: model)
        patch.setattr("kvsim.record.run.load_tokenizer", lambda *_: tokenizer)
        assert record([str(word) for word in command]) == 0
    return folder / "t.h5"


def test_a_trace_of_it_verifies_with_the_default_type(trace):
    found = kvsim.Trace(trace)
    assert found.model == "SmolLM2-135M-Instruct.Q4_1"
    assert [layer.index for layer in found.sequences[0].layers] == LAYERS
    assert 200 < found.sequences[0].num_tokens <= MOST_TOKENS
    (needle, _) = found.sequences[0].spans
    tokens = found.unit("harbour", 0, 0).token_text[needle.start : needle.end]
    assert "".join(tokens).strip() == FACT.strip()
    assert worst_error(trace) < 1e-2
    verify_with_program(trace)


def test_a_replay_of_it_keeps_the_order_that_holds_for_every_text(trace):
    frame = kvsim.sweep(trace, policies=POLICIES, budgets=["20%"])
    assert len(frame) == len(POLICIES) * len(LAYERS) * 3
    assert (frame.bound_violations == 0).all()
    policy = frame.policy.str.split(":").str[0]
    recall = frame.pivot_table("attention_recall", ["layer", "kv_head"], policy)
    assert (recall["optimal"] >= recall[["h2o", "window"]].max(axis=1) - 1e-9).all()
    mean = recall.mean()
    assert mean["optimal"] > mean["h2o"] > mean["window"]
    assert frame.predicted_kl.gt(0).all()


def test_eviction_in_it_costs_predictions_and_the_answer(model, tokenizer, text):
    policies = ["full", "optimal", "window"]
    frame = kvsim.evaluate(model, [text], policies, ["20%"], tokenizer=tokenizer)
    assert set(frame.model_id) == {model_id(model)}
    rows = frame.set_index(frame.policy.str.split(":").str[0])
    assert rows.kl_mean["full"] == pytest.approx(0, abs=1e-9)
    assert 0 < rows.kl_mean["optimal"] < rows.kl_mean["window"]
    assert (rows.answers_right_full == 1).all()
    assert rows.answers_right["full"] == 1 and rows.answers_right["window"] == 0
    assert np.isclose(rows.nll - rows.nll_full, rows.delta_nll).all()
