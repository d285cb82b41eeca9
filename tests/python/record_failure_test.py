"""A text on which the model fails, or that is refused, costs nothing but itself."""

import h5py
import pytest
import torch

from kvsim.record import RecordError, RecordWarning, recording
from record_zoo import build, check, tokens


def texts(path):
    with h5py.File(path) as file:
        return {name: group["token_ids"][()].tolist() for name, group in file["sequences"].items()}


class Fails(Exception):
    pass


def fail_in_layer_1(model):
    def fails(*_):
        raise Fails

    return model.model.layers[1].register_forward_pre_hook(fails)


def test_a_text_on_which_the_model_failed_is_left_out_and_named(tmp_path):
    model, path = build("llama"), tmp_path / "t.h5"
    with recording(model, path, names=["a", "b", "c"], dtype="float32"), torch.no_grad():
        model(tokens(8))
        hook = fail_in_layer_1(model)
        with pytest.raises(Fails):
            model(tokens(7))
        hook.remove()
        with pytest.warns(RecordWarning, match="sequence b is left out"):
            model(tokens(9))
    assert {name: len(ids) for name, ids in texts(path).items()} == {"a": 8, "c": 9}
    check(path, 1e-4)


def test_a_last_text_that_failed_is_left_out_too(tmp_path):
    model, path = build("llama"), tmp_path / "t.h5"
    left_out = pytest.warns(RecordWarning, match="sequence-1 is left out")
    with left_out, recording(model, path), torch.no_grad():
        model(tokens(8))
        fail_in_layer_1(model)
        with pytest.raises(Fails):
            model(tokens(7))
    assert list(texts(path)) == ["sequence-0"]


def test_after_a_refusal_another_text_is_recorded(tmp_path):
    model, path = build("llama"), tmp_path / "t.h5"
    mask = torch.zeros(1, 1, 12, 12)
    left_out = pytest.warns(RecordWarning, match="sequence-0 is left out")
    with left_out, recording(model, path), torch.no_grad():
        with pytest.raises(RecordError, match="the attention mask is not causal"):
            model(tokens(12), attention_mask=mask)
        model(tokens(9))
    assert [len(ids) for ids in texts(path).values()] == [9]
