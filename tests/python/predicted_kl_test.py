"""The predicted KL of a replay, held against the running model with the kept sets imposed."""

import json

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import kvsim
from conftest import HERE, SAMPLE
from kvsim.closed_loop.both_loops import both_loops
from kvsim.closed_loop.prediction import spearman
from nightly import sample_of

RETRIEVER = SAMPLE.parent / "tiny-retriever"
LLAMA = HERE.parents[2] / "shared/models/tiny-llama"
POLICIES = ["topk", "window", "random", "tova", "keydiff"]
BUDGETS = ["20%", "40%", "80%"]
SMALL = 0.3  # nats per token: above, a local prediction is indicative only


def sample_texts():
    lines = (SAMPLE.parent / "texts.jsonl").read_text().splitlines()[:2]
    return [json.loads(line)["text"] for line in lines]


def points_of(folder, texts, tmp_path, tokens=320):
    """Per text, the points of POLICIES and BUDGETS: both loops of the first tokens of each text."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = [tokenizer(text, return_tensors="pt").input_ids[:, :tokens] for text in texts]
    names = [f"text {place}" for place in range(len(ids))]
    path, results = tmp_path / "t.h5", tmp_path / "r.sqlite"
    also = {"also": "output_projection,output_score_grad", "gradient_samples": 2}
    with kvsim.recording(model, path, names=names, dtype="float32", **also), torch.no_grad():
        for each in ids:
            model(each)
    kvsim.evaluate(
        model, [each[0] for each in ids], POLICIES, BUDGETS, names=names, trace=path,
        output=results, progress=False,
    )  # fmt: skip
    rows = both_loops(results)
    assert len(rows) == len(texts) * len(POLICIES) * len(BUDGETS)
    return [text for _, text in rows[rows.predicted_kl < SMALL].groupby("sequence")]


def agreement(points, metric):
    return spearman(points[[metric, "kl_mean"]]).at[metric, "kl_mean"]


def test_where_damage_is_small_the_predicted_nats_rank_as_the_running_model_does(tmp_path):
    for points in points_of(RETRIEVER, sample_texts(), tmp_path):
        assert len(points) >= 10
        for metric in ("predicted_kl", "projected_error"):
            assert agreement(points, metric) > 0.7
        larger = points[points.kl_mean > 1e-3]
        assert 0.25 < (larger.predicted_kl / larger.kl_mean).median() < 1.5


@pytest.mark.skipif(not LLAMA.is_dir(), reason="the other model is not there")
def test_so_they_do_in_another_model_where_relative_errors_do_not(tmp_path):
    for points in points_of(LLAMA, sample_of(sample_texts()[:1], sample_texts()), tmp_path):
        assert len(points) >= 5
        found = {name: agreement(points, name) for name in ("predicted_kl", "output_error_mean")}
        assert found["predicted_kl"] > 0.8 and found["output_error_mean"] < 0.8
