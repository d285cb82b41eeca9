"""kvsim.second_reading gives tokens the scores that KVzipPress of kvpress gives them."""

import copy
from types import MethodType

import h5py
import numpy as np
import pytest
import torch
from kvpress import KVzipPress
from transformers import AutoTokenizer, DynamicCache

import kvsim
from kvsim.model.cache import cache_argument
from record_zoo import build, letters, tokens

LENGTH, PROMPT = 110, 100
LAYERS, HEADS = 3, 2


class Watched(KVzipPress):
    """Keeps the scores, which the press itself forgets, and runs with newer caches."""

    def compress_post(self, model):
        self.found = self.score_val[:, 0].clone().numpy()
        super().compress_post(model)
        self.masked = [layer.self_attn.masked_key_indices for layer in model.model.layers]

    def forward_hook(self, module, inputs, arguments, output):
        # Under the name of the release of transformers for which kvpress is made.
        return super().forward_hook(
            module, inputs, arguments | {"past_key_values": self._cache}, output
        )


def compressed(press, model, ids):
    """Lets the press compress a text that the model reads."""
    model = copy.deepcopy(model)
    inner, (name,) = model.model.forward, cache_argument(model.model, None)

    def forward(self, *args, past_key_values=None, **options):
        return inner(*args, **options, **{name: past_key_values})

    model.model.forward = MethodType(forward, model.model)
    with torch.no_grad(), press(model):
        model.model(input_ids=ids, past_key_values=DynamicCache(config=model.config))
    return press


@pytest.fixture(scope="module")
def model():
    return build("llama")


@pytest.fixture(scope="module")
def trace(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("press") / "t.h5"
    recording = kvsim.recording(model, path, dtype="float32", names=["text"], prompt_length=PROMPT)
    with recording, torch.no_grad():
        model(tokens(LENGTH))
    return path


def templated(tokenizer):
    # A template without anything before the message: the press scores a text after that.
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }} so {% endfor %}"
    return tokenizer


@pytest.mark.parametrize(
    ("chunk", "sinks", "tokenizer"),
    [(2048, 4, letters()), (40, 4, templated(letters())), (7, 10, letters())],
)
def test_scores_are_those_of_the_press(
    chunk, sinks, tokenizer, model, trace, tmp_path, monkeypatch
):
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", lambda *_: tokenizer)
    press = Watched(compression_ratio=0.5, chunk_size=chunk, n_sink=sinks)
    expected = compressed(press, model, tokens(LENGTH)[:, :PROMPT]).found
    kvsim.second_reading(
        model, trace, tmp_path / "s.h5", tokenizer=tokenizer, chunk=chunk, sinks=sinks,
        progress=False,
    )  # fmt: skip
    found = scores_in(tmp_path / "s.h5")
    assert expected.min() > 0
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=0)


def scores_in(path):
    with h5py.File(path) as file:
        layers = file["sequences/text/layers"]
        return np.array(
            [
                [layers[f"{layer}/kv_heads/{head}/scores"][()] for head in range(HEADS)]
                for layer in range(LAYERS)
            ]
        )


@pytest.mark.parametrize("ratio", [0.5, 0.8])
def test_budgets_are_what_the_press_removes_of_each_head(
    ratio, model, trace, tmp_path, monkeypatch
):
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", lambda *_: letters())
    press = compressed(Watched(compression_ratio=ratio), model, tokens(LENGTH)[:, :PROMPT])
    kvsim.second_reading(
        model, trace, tmp_path / "s.h5", tokenizer=letters(), budgets=tmp_path / "b.npy"
    )
    removed = np.load(tmp_path / "b.npy")[round(100 * ratio) - 1] * PROMPT
    for layer, (_, heads, _) in enumerate(press.masked):
        counts = np.bincount(heads.numpy(), minlength=HEADS)
        np.testing.assert_allclose(removed[layer], counts, atol=1e-4)


@pytest.mark.parametrize("ratio", [0.5, 0.8])
def test_kvzip_keeps_what_the_press_keeps(ratio, model, trace, tmp_path, monkeypatch):
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", lambda *_: letters())
    press = Watched(compression_ratio=ratio, chunk_size=40)
    press = compressed(press, model, tokens(LENGTH)[:, :PROMPT])
    scores, budgets = tmp_path / "s.h5", tmp_path / "b.npy"
    kvsim.second_reading(model, trace, scores, tokenizer=letters(), chunk=40, budgets=budgets)
    once = {"mode": "prefill", "eviction_interval": "never"}
    budget = round(PROMPT * (1 - ratio))
    rows = kvsim.sweep(trace, f"kvzip:file={scores}@file:{budgets}", budget, **once)
    assert len(rows) == LAYERS * HEADS
    for row in rows.itertuples():
        _, heads, gone = press.masked[row.layer]
        expected = sorted(gone[heads == row.kv_head].tolist())
        assert row.evictions == len(expected)
        unit = {"layer": row.layer, "kv_head": row.kv_head}
        own = PROMPT - len(expected)
        left = kvsim.replay(trace, f"kvzip:file={scores}", own, **unit, **once).evicted_after
        assert np.flatnonzero(left[:PROMPT] < PROMPT).tolist() == expected
