"""Texts are written while a model on a device reads the next one, as if it had waited."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
import torch

from kvsim.errors import KvsimError
from kvsim.record import RecordError, RecordWarning, copies, recording
from kvsim.record.background import Background
from kvsim.record.recorder import Recorder
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
        # Only the first one waits for long: where the next text waits for it, this fails soon.
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


def left_out(raised):
    return [str(each.message) for each in raised if "left out" in str(each.message)]


NO_SPACE = "t.h5: cannot be written: No space left on device"


@pytest.fixture
def no_room_for_b(late, monkeypatch):
    def refuse(group):
        if "/b/" in group:
            raise KvsimError(NO_SPACE)

    write_heads_patched(monkeypatch, refuse)


def test_an_interrupt_costs_no_text_that_is_written_and_none_that_is_being_written(
    late, tmp_path, monkeypatch
):
    is_waiting, own = threading.Event(), Background.wait

    def wait(background):
        is_waiting.set()
        own(background)

    def interrupt(group):
        if group.endswith("/b/layers") and not interrupted:
            interrupted.append(is_waiting.wait(60))
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)  # the model's thread goes on to clear up

    interrupted = []
    write_heads_patched(monkeypatch, interrupt)
    model = build("llama")
    went = pytest.warns(RecordWarning, match="2 finished texts went")
    with (
        went,
        pytest.raises(KeyboardInterrupt),
        recording(model, tmp_path / "t.h5", names=["a", "b"]) as recorder,
        torch.no_grad(),
    ):
        model(tokens(8))
        model(tokens(9))
        recorder.end_texts()
        monkeypatch.setattr(Background, "wait", wait)
    assert interrupted == [True]
    assert list(texts(tmp_path / "t.unfinished.h5")) == ["a", "b"]


def test_the_work_that_runs_is_waited_for_through_an_interrupt_and_the_next_is_not_begun():
    background, done = Background(), []
    has_begun, is_closing = threading.Event(), threading.Event()

    def work():
        has_begun.set()
        is_closing.wait(60)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)  # the interrupt comes first
        done.append(1)

    background.run(work)
    background.run(lambda: done.append(2))
    has_begun.wait(60)
    with pytest.raises(KeyboardInterrupt):
        is_closing.set()
        background.close()
    assert done == [1]


@pytest.mark.parametrize("looks", [True, False])
def test_a_text_that_cannot_be_written_is_named_by_an_error(looks, no_room_for_b, tmp_path):
    model = build("llama")
    went = pytest.warns(RecordWarning, match="2 finished texts went")
    with (
        went,
        pytest.raises(KvsimError, match=f"^sequence b: {NO_SPACE}$"),
        recording(model, tmp_path / "t.h5", names=["a", "b", "c"]) as recorder,
        torch.no_grad(),
    ):
        for length in (8, 9, 10):
            model(tokens(length))
        if looks:
            assert [each.name for each in recorder.sequences] == ["a"]
    assert list(texts(tmp_path / "t.unfinished.h5")) == ["a", "c"]


def test_a_caller_that_goes_on_gets_the_other_texts_and_a_warning(no_room_for_b, tmp_path):
    model = build("llama")
    with (
        pytest.warns(RecordWarning) as raised,
        recording(model, tmp_path / "t.h5", names=["a", "b", "c", "d"]),
        torch.no_grad(),
    ):
        for length in (8, 9, 10):
            model(tokens(length))
        with pytest.raises(KvsimError, match=f"sequence b: {NO_SPACE}"):
            model(tokens(11))
        model(tokens(11))
    assert left_out(raised) == [f"sequence b is left out: {NO_SPACE}"]
    assert {name: len(ids) for name, ids in texts(tmp_path / "t.h5").items()} == {
        "a": 8, "c": 10, "d": 11
    }  # fmt: skip


def test_another_exception_does_not_hide_that_a_text_was_not_written(no_room_for_b, tmp_path):
    def fail():
        raise ZeroDivisionError

    model = build("llama")
    with (
        pytest.warns(RecordWarning) as raised,
        pytest.raises(ZeroDivisionError),
        recording(model, tmp_path / "t.h5", names=["a", "b"]) as recorder,
        torch.no_grad(),
    ):
        model(tokens(8))
        model(tokens(9))
        recorder.end_texts()
        fail()
    assert left_out(raised) == [f"sequence b is left out: {NO_SPACE}"]
    assert list(texts(tmp_path / "t.unfinished.h5")) == ["a"]


@pytest.mark.parametrize("is_late", [True, False])
def test_of_a_batch_one_that_fails_stops_no_other_and_keeps_no_temporary_file(
    is_late, no_room_for_b, tmp_path, monkeypatch
):
    if not is_late:
        monkeypatch.setattr(copies, "stream_for", lambda _: None)
    model, (ids, mask) = build("llama"), padded([9, 20, 14])
    left = len(unnamed_files())
    with (
        pytest.warns(RecordWarning, match="sequence b is left out"),
        recording(model, tmp_path / "t.h5", names=["a", "b", "c"]) as recorder,
        torch.no_grad(),
    ):
        model(ids, attention_mask=mask)
        with pytest.raises(KvsimError, match=NO_SPACE):
            recorder.end_texts()
            recorder.end_texts()
        assert len(unnamed_files()) == left
    assert list(texts(tmp_path / "t.h5")) == ["a", "c"]


def unnamed_files():
    return [link for link in Path("/proc/self/fd").iterdir() if "(deleted)" in str(link.resolve())]


def test_all_texts_of_a_batch_are_compared_before_one_is_written(late, tmp_path, monkeypatch):
    order, own = [], Recorder._types_of

    def compare(recorder, sequence):
        order.append("compare")
        time.sleep(0.02)  # for a thread that would write meanwhile
        return own(recorder, sequence)

    monkeypatch.setattr(Recorder, "_types_of", compare)
    write_heads_patched(monkeypatch, lambda _: order.append("write"))
    model, (ids, mask) = build("llama"), padded([9, 20, 14])
    with recording(model, tmp_path / "t.h5", layers=[0]), torch.no_grad():
        model(ids, attention_mask=mask)
    assert order == ["compare"] * 3 + ["write"] * 3 * 4
