"""A text on which the model fails, or that is refused, costs nothing but itself."""

import h5py
import pytest
import torch

from kvsim.record import RecordError, RecordWarning, recording
from record_zoo import build, check, sharp, tokens

ALSO = ("output_projection", "residual", "output_score_grad")


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


def test_an_exception_leaves_the_finished_texts_in_a_trace_of_their_own(tmp_path):
    model, path = build("llama"), tmp_path / "t.h5"
    path.touch()  # what may be replaced, but is not
    kept = pytest.warns(RecordWarning, match=r"^1 finished text went to .*t\.unfinished\.h5$")
    named = recording(model, path, names=["a", "b", "c"], also=ALSO)
    with kept, pytest.raises(Fails), named, torch.no_grad():
        model(tokens(8))
        model(tokens(7))
        raise Fails
    assert path.stat().st_size == 0
    assert {file.name for file in tmp_path.iterdir()} == {"t.h5", "t.unfinished.h5"}
    unfinished = tmp_path / "t.unfinished.h5"
    assert {name: len(ids) for name, ids in texts(unfinished).items()} == {"a": 8}
    with h5py.File(unfinished) as file:
        assert set(ALSO) <= {*file["sequences/a/layers/0"], *file["model/layers/0"]}
    check(unfinished, 1e-2)


def test_a_text_that_was_ended_is_kept_too(tmp_path):
    model, path = build("llama"), tmp_path / "t.h5"
    kept = pytest.warns(RecordWarning, match="2 finished texts went to")
    with kept, pytest.raises(Fails), recording(model, path) as recorder, torch.no_grad():
        for length in (8, 7):
            model(tokens(length))
            recorder.end_texts()
        model(tokens(5))
        raise Fails
    ids = texts(tmp_path / "t.unfinished.h5")
    assert {name: len(each) for name, each in ids.items()} == {"sequence-0": 8, "sequence-1": 7}
    check(tmp_path / "t.unfinished.h5", 1e-2)


def test_a_text_that_is_refused_costs_no_earlier_one(tmp_path):
    model, path = build("llama"), tmp_path / "t.h5"
    kept = pytest.warns(RecordWarning, match="2 finished texts went to")
    refused = pytest.raises(RecordError, match=r"sequence-2, layer 1: .* that kvsim verify allows")
    with kept, refused, recording(model, path, dtype="float16"), torch.no_grad():
        model(tokens(8))
        model(tokens(7))
        sharp(model)(tokens(9))
    assert list(texts(tmp_path / "t.unfinished.h5")) == ["sequence-0", "sequence-1"]


def test_nothing_is_kept_in_the_place_of_a_file_that_is_no_trace(tmp_path):
    model, path = build("llama"), tmp_path / "t.h5"
    (tmp_path / "t.unfinished.h5").write_text("notes")
    warned = pytest.warns(RecordWarning, match="could not be kept: .*unfinished.* is no trace")
    with warned, pytest.raises(Fails), recording(model, path), torch.no_grad():
        model(tokens(8))
        model(tokens(7))
        raise Fails
    assert (tmp_path / "t.unfinished.h5").read_text() == "notes"
    assert not path.exists()
