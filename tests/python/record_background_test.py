"""Texts are written while a model on a device reads the next one, as if it had waited."""

import threading

import pytest
import torch

from kvsim.errors import KvsimError
from kvsim.record import RecordError, RecordWarning, copies, recording
from kvsim.record.background import Background
from kvsim.record.trace_file import TraceFile
from nightly import sample_of
from record_copies_test import LateStream, fails_on_numbers_that_are_not_finite
from record_failure_test import texts
from record_zoo import build, padded, tokens


@pytest.fixture
def late(monkeypatch):
    monkeypatch.setattr(copies, "stream_for", lambda _: LateStream())


def write_heads_patched(monkeypatch, before):
    own = TraceFile.write_heads

    def write_heads(file, group, path, rows, kind):
        before(group.name)
        own(file, group, path, rows, kind)

    monkeypatch.setattr(TraceFile, "write_heads", write_heads)


def read_two(path, then=lambda: None):
    model = build("llama")
    with recording(model, path, names=["a", "b"]), torch.no_grad():
        model(tokens(8))
        model(tokens(9))
        then()


def test_a_text_is_written_while_the_next_one_is_read(late, tmp_path, monkeypatch):
    second_is_read, waited = threading.Event(), []

    def wait(_):
        waited.append(second_is_read.wait(60 if all(waited) else 0))

    write_heads_patched(monkeypatch, wait)
    model = build("llama")
    ids, mask = padded([9, 20])
    with recording(model, tmp_path / "t.h5"), torch.no_grad():
        model(tokens(8))
        model(ids, attention_mask=mask)
        second_is_read.set()
        model(tokens(9))
    assert len(waited) == 4 * 3 * 4 and all(waited)


@pytest.mark.parametrize("compression", sample_of(["none"], ["gzip", "none"]))
def test_the_trace_is_the_one_that_is_written_at_once(compression, late, tmp_path, monkeypatch):
    def trace(name):
        model, (ids, mask) = build("llama"), padded([9, 20, 14])
        path = tmp_path / name
        with recording(model, path, compression=compression, threads=3), torch.no_grad():
            model(tokens(150))
            model(ids, attention_mask=mask)
            model(tokens(40))
        return path.read_bytes()

    later = trace("later.h5")
    monkeypatch.setattr(Background, "run", lambda _, work: work())
    assert trace("at_once.h5") == later


def test_a_text_that_cannot_be_written_costs_no_text_before_it(late, tmp_path, monkeypatch):
    def refuse(group):
        if "/b/" in group:
            raise KvsimError("t.h5: cannot be written: No space left on device")

    write_heads_patched(monkeypatch, refuse)
    went = pytest.warns(RecordWarning, match=r"1 finished text went to .*t\.unfinished\.h5")
    threads = threading.active_count()
    with went, pytest.raises(KvsimError, match="No space left on device"):
        read_two(tmp_path / "t.h5")
    assert [path.name for path in tmp_path.iterdir()] == ["t.unfinished.h5"]
    assert {name: len(ids) for name, ids in texts(tmp_path / "t.unfinished.h5").items()} == {"a": 8}
    assert threading.active_count() == threads


def test_an_exception_waits_for_the_text_that_is_being_written(late, tmp_path, monkeypatch):
    raising = threading.Event()
    write_heads_patched(monkeypatch, lambda _: raising.wait(60))

    def fail():
        raising.set()
        raise ZeroDivisionError

    with (
        pytest.warns(RecordWarning, match="1 finished text went"),
        pytest.raises(ZeroDivisionError),
    ):
        read_two(tmp_path / "t.h5", fail)
    assert list(texts(tmp_path / "t.unfinished.h5")) == ["a"]


def test_after_a_text_that_failed_the_next_ones_are_written(late, tmp_path):
    model = build("llama")
    whole = model.model.layers[2].self_attn.v_proj.weight.clone()
    left_out = pytest.warns(RecordWarning, match="sequence sequence-1 is left out")
    with left_out, recording(model, tmp_path / "t.h5"), torch.no_grad():
        model(tokens(8))
        fails_on_numbers_that_are_not_finite(model)
        with pytest.raises(RecordError, match="is not finite"):
            model(tokens(7))
        model.model.layers[2].self_attn.v_proj.weight.copy_(whole)
        model(tokens(9))
        model(tokens(10))
    assert [len(ids) for ids in texts(tmp_path / "t.h5").values()] == [8, 9, 10]


def test_of_works_that_follow_one_that_failed_none_is_done():
    background, done, first = Background(), [], threading.Event()

    def fail():
        first.wait(60)
        raise ValueError("first")

    background.run(fail)
    background.run(lambda: done.append(1))
    first.set()
    with pytest.raises(ValueError, match="first"):
        background.settle()
    background.run(lambda: done.append(2))
    background.settle()
    background.close()
    assert done == [2]
