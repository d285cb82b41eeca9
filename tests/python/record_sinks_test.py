"""Learned sinks and chunks are recorded as the model attends with them."""

import h5py
import numpy as np
import pytest
import torch

from kvsim.record import RecordWarning, recording
from record_zoo import build, check, generate, tokens

PROMPT, NEW = 20, 12


def test_the_sinks_of_gpt_oss_are_recorded_with_its_windows(tmp_path):
    model, path = build("gpt_oss"), tmp_path / "t.h5"
    with torch.no_grad():
        for index, layer in enumerate(model.model.layers):
            layer.self_attn.sinks.copy_(torch.tensor([-1.5, 0.1, 2.0, 6.0]) + index)
    with recording(model, path, dtype="float32"):
        generate(model, tokens(PROMPT), NEW)
    check(path, 1e-4)
    with h5py.File(path) as file:
        layers = file["sequences/sequence-0/layers"]
        for index, layer in layers.items():
            expected = model.model.layers[int(index)].self_attn.sinks.detach().numpy()
            assert (layer["sink_logit"][()] == expected).all()
            assert layer["sink_logit"].dtype == np.float32
        assert [layer.attrs.get("sliding_window") for layer in layers.values()] == [8, None, 8]
        assert file["rope"].attrs["style"].decode() == "half"


def test_the_chunks_of_llama_4_are_recorded_where_it_has_them(tmp_path):
    model, path = build("llama4"), tmp_path / "t.h5"
    unknown = pytest.warns(RecordWarning, match="does not say how keys of layer 0 are rotated")
    with unknown, recording(model, path, dtype="float32"):
        generate(model, tokens(PROMPT), NEW)
    check(path, 1e-4)
    with h5py.File(path) as file:
        layers = file["sequences/sequence-0/layers"].values()
        assert [layer.attrs.get("attention_chunk") for layer in layers] == [10, None, 10]
        assert all("sliding_window" not in layer.attrs for layer in layers)


def test_a_text_that_fits_a_chunk_has_the_chunk_that_the_layer_declares(tmp_path):
    model, path = build("llama4"), tmp_path / "t.h5"
    with recording(model, path, dtype="float32"), torch.no_grad():
        model(tokens(6))
    with h5py.File(path) as file:
        assert file["sequences/sequence-0/layers/0"].attrs["attention_chunk"] == 10
