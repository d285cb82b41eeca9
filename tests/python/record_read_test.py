"""A text that is read whole, in one pass for all that is recorded of it."""

import h5py
import numpy as np
import pytest
import torch

from kvsim.errors import UsageError
from kvsim.record import RecordError, recording
from record_zoo import build, record, sharp, tokens


def numbers_of(path):
    """All vectors of a trace, by dataset."""
    found = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: (
                found.update({name: item[()]})
                if isinstance(item, h5py.Dataset) and name.startswith(("sequences", "model"))
                else None
            )
        )
    return found


def test_a_text_read_in_one_pass_gives_what_two_passes_give(tmp_path):
    model, ids = build("llama"), tokens(40)
    also = ["output_projection", "residual", "output_score_grad", "mlp_activation"]
    once, twice = tmp_path / "once.h5", tmp_path / "twice.h5"
    passes = []
    model.model.register_forward_hook(lambda *_: passes.append(1))
    with recording(model, once, dtype="float32", also=also, gradient_samples=2) as recorder:
        passes.clear()
        recorder.read(ids[0].tolist())
        assert len(passes) == 1
    with record(model, twice, ids, also=also, gradient_samples=2):
        pass
    expected = numbers_of(twice)
    found = numbers_of(once)
    assert found.keys() == expected.keys()
    for name, numbers in expected.items():
        np.testing.assert_allclose(found[name], numbers, rtol=1e-3, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("read", [True, False])
def test_a_layer_that_does_not_attend_has_nothing_in_the_trace(read, tmp_path):
    model, ids, path = build("llama"), tokens(12), tmp_path / "t.h5"
    model.model.layers[1].self_attn.forward = lambda hidden_states, **_: (hidden_states, None)
    also = ["output_score_grad", "mlp_activation"]
    with recording(model, path, also=also) as recorder, torch.no_grad():
        if read:
            recorder.read(ids[0].tolist())
        else:
            model(ids)
    with h5py.File(path) as file:
        layers = file["sequences/sequence-0/layers"]
        assert {layer: set(also) <= set(layers[layer]) for layer in layers} == {
            "0": True,
            "2": True,
        }


def test_outputs_are_left_out_once_they_have_been_compared(tmp_path):
    model = build("llama")
    with record(model, tmp_path / "t.h5", tokens(12), no_output=True, also="residual") as file:
        layer = file["sequences/sequence-0/layers/1"]
        assert set(layer) == {"query", "key", "value", "residual"}
    refused = pytest.raises(RecordError, match="that kvsim verify allows")
    with refused, recording(sharp(model), tmp_path / "u.h5", dtype="float16", no_output=True):
        model(tokens(12))


@pytest.mark.parametrize("ids", [tokens(12), "text", [0.5, 2.0], {"input_ids": [1, 2]}])
def test_what_is_no_text_of_token_ids_is_refused_and_the_next_one_recorded(ids, tmp_path):
    with recording(build("llama"), tmp_path / "t.h5") as recorder:
        with pytest.raises(UsageError, match="expected the token ids of one text"):
            recorder.read(ids)
        recorder.read(tokens(12)[0])
    with h5py.File(tmp_path / "t.h5") as file:
        assert list(file["sequences"]) == ["sequence-0"]
