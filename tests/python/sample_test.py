"""The bundled model and its texts are what traces/sample/README.md says."""

import json
from itertools import islice

import h5py
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from conftest import SAMPLE
from kvsim.record.__main__ import main
from nightly import sample_of

FOLDER = SAMPLE.parent
MODEL = FOLDER / "tiny-retriever"
TRACED = FOLDER / "tiny-retriever.jsonl"


def texts(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def retriever():
    model = AutoModelForCausalLM.from_pretrained(MODEL, attn_implementation="eager")
    return model.eval(), AutoTokenizer.from_pretrained(MODEL)


@pytest.fixture(scope="module")
def encoded(retriever):
    """Of a file: texts, their token ids, and the tokens at which characters begin."""
    _, tokenizer = retriever

    def encode(path):
        for text in texts(path):
            found = tokenizer(text["text"], return_offsets_mapping=True)
            begun = {first: at for at, (first, end) in enumerate(found["offset_mapping"]) if end}
            yield text, found["input_ids"], begun

    return encode


@pytest.mark.parametrize(("path", "tokens"), [(FOLDER / "texts.jsonl", 1024), (TRACED, 640)])
def test_all_facts_are_in_the_prompt_and_all_questions_after_it(encoded, path, tokens):
    for text, ids, begun in encoded(path):
        assert len(ids) == tokens
        assert begun[text["prompt_length"]] == tokens * 3 // 4
        facts, asked = {}, {}
        for first, end, label in text["spans"]:
            part = text["text"][first:end]
            assert (label == "needle") == (first < text["prompt_length"])
            if label == "needle":
                key, value = part.replace("><", "> <").split()
                facts[key] = value
            elif label == "question":
                question = part.removeprefix("?")
            else:
                asked[question] = part
        assert asked and asked.items() <= facts.items()


@pytest.mark.parametrize(
    ("path", "number", "right"),
    [sample_of((FOLDER / "texts.jsonl", 2, (23, 1)), (FOLDER / "texts.jsonl", 12, (136, 20))),
     (TRACED, 2, (16, 1))],
)  # fmt: skip
def test_the_model_answers_with_all_of_its_context_and_not_with_a_fifth(
    retriever, encoded, path, number, right
):
    model, _ = retriever
    found = [0, 0]
    for text, ids, begun in islice(encoded(path), number):
        answers = [begun[first] for first, _, label in text["spans"] if label == "answer"]
        age = torch.arange(len(ids))[:, None] - torch.arange(len(ids))
        for at, window in enumerate((len(ids), round(0.2 * len(ids)))):
            mask = torch.where((age >= 0) & (age < window), 0.0, -torch.inf)
            with torch.inference_mode():
                logits = model(torch.tensor([ids]), attention_mask=mask[None, None]).logits[0]
            found[at] += sum(int(logits[token - 1].argmax()) == ids[token] for token in answers)
    # Rounding, which differs between machines, may turn a close answer.
    assert found == pytest.approx(right, abs=2)


def test_the_documented_command_records_the_bundled_trace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = [str(MODEL), "--texts", str(TRACED), "-o", "again.h5"]
    assert main([*command, "--also", "output_projection,residual,output_score_grad"]) == 0
    bundled, recorded = datasets(FOLDER / "tiny-retriever.h5"), datasets(tmp_path / "again.h5")
    assert recorded.keys() == bundled.keys()
    assert len([path for path in bundled if "/spans/" in path]) == 2 * 4
    for path, expected in bundled.items():
        if path.endswith("output_score_grad"):  # where rounding turns a label, it is another one
            close = np.abs(recorded[path] - expected) < 0.01 * np.abs(expected).max()
            assert close.mean() > 0.98, path
        elif expected.dtype.kind == "f":  # rounding differs between machines
            assert np.abs(recorded[path] - expected).max() < 0.01 * np.abs(expected).max(), path
        else:
            assert np.array_equal(recorded[path], expected), path
    with h5py.File(FOLDER / "tiny-retriever.h5") as kept, h5py.File(tmp_path / "again.h5") as again:
        for name, sequence in kept["sequences"].items():
            assert dict(again["sequences"][name].attrs) == dict(sequence.attrs)


def datasets(path):
    found = {}

    def note(name, item):
        if isinstance(item, h5py.Dataset) and name != "manifest":
            found[name] = item[()]
            if "scale" in item.attrs:
                found[name] = found[name] * item.attrs["scale"]

    with h5py.File(path) as file:
        file.visititems(note)
    return found
