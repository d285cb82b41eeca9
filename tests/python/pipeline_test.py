"""A pipeline of transformers whose model evicts."""

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline

import kvsim

SAMPLE = Path(__file__).parents[2] / "traces/sample"
PREFILL = dict(policy="h2o", budget="20%", mode="prefill")


@pytest.fixture(scope="module")
def pipe():
    model = AutoModelForCausalLM.from_pretrained(SAMPLE / "tiny-retriever")
    tokenizer = AutoTokenizer.from_pretrained(SAMPLE / "tiny-retriever")
    tokenizer.pad_token, tokenizer.padding_side = tokenizer.eos_token, "left"
    return pipeline("text-generation", model=model, tokenizer=tokenizer)


@pytest.fixture(scope="module")
def texts():
    lines = (SAMPLE / "questions.jsonl").read_text().splitlines()[:3]
    questions = [json.loads(line) for line in lines]
    return [each["context"] + each["question"] for each in questions]


def generated(pipe, texts, **options):
    """The new text of each one."""
    settings = dict(max_new_tokens=12, do_sample=False, return_full_text=False)
    return [found[0]["generated_text"] for found in pipe(texts, **settings, **options)]


def test_a_pipeline_generates_what_its_evicting_model_does(pipe, texts):
    full = generated(pipe, texts)
    with kvsim.evicting(pipe.model, **PREFILL) as cache:
        found = generated(pipe, texts)
        lengths = [len(pipe.tokenizer(text).input_ids) for text in texts]
        assert cache.num_begun == 3
        assert {len(cache.kept(layer, 0)[0]) for layer in range(4)} == {int(0.2 * lengths[-1])}
        for text, expected in zip(texts, found, strict=True):
            ids = pipe.tokenizer(text, return_tensors="pt").input_ids
            with torch.no_grad():
                new = pipe.model.generate(ids, max_new_tokens=12, do_sample=False)
            assert pipe.tokenizer.decode(new[0, ids.shape[1] :]) == expected
    assert found != full
    assert generated(pipe, texts) == full


def test_a_pipeline_may_read_a_batch(pipe, texts):
    with kvsim.evicting(pipe.model, **PREFILL) as cache:
        alone = generated(pipe, texts)
        assert generated(pipe, texts, batch_size=3) == alone
        assert cache.num_begun == 6 and len(cache.kept(0, 0)) == 3
