"""Vectors reach the trace from a device that copies late, as from one that copies at once."""

import contextlib
import itertools
import threading
import weakref

import numpy as np
import pytest
import torch

from kvsim.errors import KvsimError, UsageError
from kvsim.record import RecordError, RecordWarning, copies, recording
from kvsim.record.copies import BUFFERS, Copies, CudaStream
from kvsim.record.spool import Spool, SpooledRows
from record_failure_test import texts
from record_zoo import build, generate, padded, tokens


class LateEvent:
    """What a device has promised is done when somebody waits for it, and not before."""

    def __init__(self, stream, source, target):
        self.stream, self.source, self.target = stream, weakref.ref(source), target

    @torch.inference_mode()
    def synchronize(self):
        source = self.source()
        assert source is not None, "memory was freed before it was copied"
        self.target.copy_(source)


class LateStream:
    """Copies as late as a device may. Until then the target holds other numbers."""

    def __init__(self):
        self.begun = 0
        self.changed = threading.Condition()

    def buffer(self, size):
        return torch.empty(size, dtype=torch.uint8)

    def copy(self, source, target):
        target.zero_()
        with self.changed:
            self.begun += 1
            self.changed.notify_all()
        return LateEvent(self, source, target)


@pytest.fixture
def late(monkeypatch):
    stream = LateStream()
    monkeypatch.setattr(copies, "stream_for", lambda _: stream)
    return stream


def recorded(path, model, **options):
    """The bytes of a trace of a text that is read and a padded batch that is continued."""
    ids, mask = padded([9, 20, 14])
    with recording(model, path, **options) as recorder, torch.no_grad():
        recorder.read(tokens(150)[0])
        generate(model, ids, 4, attention_mask=mask)
    return path.read_bytes()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_trace_is_the_same_where_copies_come_late_and_for_any_number_of_threads(
    dtype, tmp_path, monkeypatch
):
    model = build("llama").to(dtype)
    monkeypatch.setattr("kvsim.record.sequence.ROWS_AT_ONCE", 64)  # several copies of a dataset
    expected = recorded(tmp_path / "at_once.h5", model, threads=5)
    stream = LateStream()
    monkeypatch.setattr(copies, "stream_for", lambda _: stream)
    for threads in (1, 16) if dtype == torch.float32 else (3,):
        assert recorded(tmp_path / f"{threads}.h5", model, threads=threads) == expected
    before = stream.begun
    with recording(model, tmp_path / "long.h5") as recorder, torch.no_grad():
        recorder.read(tokens(150)[0])
    assert stream.begun - before == 3 * 4 * len(model.model.layers)  # 150 tokens, 64 at a time


def test_a_copy_has_the_numbers_that_a_tensor_had_when_it_was_taken(late):
    taken, found = Copies(), []
    numbers = torch.arange(60.0).reshape(3, 4, 5).transpose(0, 1)
    expected = numbers.clone()
    taken.take(numbers, lambda rows: found.append(rows.clone()))
    numbers.zero_()
    del numbers
    taken.drain()
    taken.close()
    assert torch.equal(found[0], expected)


def test_a_buffer_is_read_before_it_is_used_again(late):
    taken, found, most = Copies(), [], 0

    def read(rows):
        nonlocal most
        with late.changed:  # as slow as it may be: no other copy can begin
            late.changed.wait_for(lambda: late.begun >= min(len(found) + BUFFERS, 40), timeout=60)
            most = max(most, late.begun - len(found))
        found.append(rows.clone())

    sizes = [1 + i % 7 for i in range(40)]  # buffers are replaced by larger ones
    for i, size in enumerate(sizes):
        taken.take(torch.full((size,), float(i)), read)
    taken.drain()
    taken.close()
    assert [rows.tolist() for rows in found] == [[float(i)] * n for i, n in enumerate(sizes)]
    assert most == BUFFERS


def test_lanes_keep_their_order_and_nothing_is_left_of_an_error(late):
    taken, read = Copies(2), {0: [], 1: []}

    def use(lane, number):
        def keep(_):
            if (lane, number) in ((1, 1), (0, 2)):
                raise ValueError(f"{lane} {number}")
            read[lane].append(number)

        return keep

    for number, lane in itertools.product(range(BUFFERS), (0, 1)):
        with contextlib.suppress(ValueError):
            taken.take(torch.zeros(1), use(lane, number), lane)
    with contextlib.suppress(ValueError):
        taken.drain()
    assert read[0][:2] == [0, 1] and read[1][:1] == [0]
    taken.take(torch.zeros(1), use(0, 9), 0)
    taken.drain()
    taken.close()
    assert read[0][-1] == 9


def test_of_several_errors_that_of_the_first_tensor_is_raised(late):
    taken, second_failed = Copies(2), threading.Event()

    def first(_):
        assert second_failed.wait(60)
        raise ValueError("first")

    def second(_):
        second_failed.set()
        raise ValueError("second")

    taken.take(torch.zeros(1), first, 0)
    taken.take(torch.zeros(1), second, 1)
    with pytest.raises(ValueError, match="first"):
        taken.drain()
    taken.close()


def fails_on_numbers_that_are_not_finite(model):
    with torch.no_grad():
        model.model.layers[2].self_attn.v_proj.weight[0, 0] = float("nan")


def test_an_error_of_a_thread_is_one_of_the_text_that_it_read(late, tmp_path):
    model, path = build("llama"), tmp_path / "t.h5"
    whole = model.model.layers[2].self_attn.v_proj.weight.clone()
    left_out = pytest.warns(RecordWarning, match="sequence b is left out")
    with (
        left_out,
        recording(model, path, names=["a", "b", "c"], threads=3) as recorder,
        torch.no_grad(),
    ):
        model(tokens(8))
        fails_on_numbers_that_are_not_finite(model)
        with pytest.raises(RecordError, match=r"sequence b, layer 2, value: .* is not finite"):
            model(tokens(7))
        model.model.layers[2].self_attn.v_proj.weight.copy_(whole)
        model(tokens(9))
        recorder.end_texts()
    assert {name: len(ids) for name, ids in texts(path).items()} == {"a": 8, "c": 9}


def test_a_text_of_two_types_is_refused(tmp_path):
    model = build("llama")
    left_out = pytest.warns(RecordWarning, match="sequence-1 is left out")
    with left_out, recording(model, tmp_path / "t.h5"), torch.no_grad():
        model(tokens(8))
        cache = model(tokens(8)).past_key_values
        for layer in cache.layers:
            layer.keys, layer.values = layer.keys.half(), layer.values.half()
        model.half()
        with pytest.raises(RecordError, match=r"layer 0, query: expected float32 .* found float16"):
            model(tokens(1), past_key_values=cache)
    assert list(texts(tmp_path / "t.h5")) == ["sequence-0"]


def test_an_error_of_a_thread_leaves_no_file_and_no_thread(late, tmp_path, monkeypatch):
    def refuse(*_):
        raise KvsimError("t.h5: cannot be written: No space left on device")

    monkeypatch.setattr(Spool, "write", refuse)
    threads = threading.active_count()
    named = recording(build("llama"), tmp_path / "t.h5", threads=3)
    with pytest.raises(KvsimError, match="No space left on device"), named as recorder:
        recorder.read(tokens(200)[0])
    assert list(tmp_path.iterdir()) == []
    assert threading.active_count() == threads


def test_an_interrupted_recording_ends_its_threads(late, tmp_path):
    threads = threading.active_count()
    model = build("llama")
    with pytest.raises(KeyboardInterrupt), recording(model, tmp_path / "t.h5"), torch.no_grad():
        model(tokens(20))
        raise KeyboardInterrupt
    assert threading.active_count() == threads


def test_no_threads_are_refused(tmp_path):
    message = "threads: expected 1 or more, found 0"
    with (
        pytest.raises(UsageError, match=message),
        recording(build("llama"), tmp_path / "t.h5", threads=0),
    ):
        pass


def test_a_stream_of_cuda_waits_for_the_device_and_says_when_it_is_done(monkeypatch):
    calls = []

    class Stream:
        def __init__(self, device):
            calls.append(f"stream on {device}")

        def wait_stream(self, other):
            calls.append(f"waits for {other}")

        def record_event(self):
            calls.append("event")
            return "event"

    @contextlib.contextmanager
    def chosen(_):
        calls.append("begin")
        yield
        calls.append("end")

    class Target:
        def copy_(self, source, non_blocking):
            calls.append(f"copies {source}, non_blocking={non_blocking}")

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"the one of {device}")
    monkeypatch.setattr(torch.cuda, "stream", chosen)
    assert CudaStream(torch.device("cuda:1")).copy("numbers", Target()) == "event"
    assert calls == [
        "stream on cuda:1", "waits for the one of cuda:1", "begin",
        "copies numbers, non_blocking=True", "event", "end",
    ]  # fmt: skip


@pytest.mark.parametrize("form", ["float32", "float16", "bfloat16"])
def test_vectors_are_kept_as_the_model_has_them(form, tmp_path):
    numbers = torch.randn(2, 300, 8, generator=torch.Generator().manual_seed(0))
    numbers[1, 7, 3], numbers[0, 2] = -6.5, -0.0
    numbers = numbers.to(getattr(torch, form))
    rows = SpooledRows(Spool(tmp_path / "t.h5"), 2, 8, numbers.itemsize, form)
    for part in numbers.split([1, 1, 150, 128, 20], dim=1):
        rows.append((part.view(torch.uint16) if form == "bfloat16" else part).numpy())
    rows.flush()
    assert rows.largest == 6.5
    np.testing.assert_array_equal(rows.head(1), numbers[1].float().numpy())
    half = rows.part(0, 140, 170, np.float16)
    np.testing.assert_array_equal(half, numbers[0, 140:170].half().numpy())
    bad = torch.full((2, 1, 8), -float("nan")).to(numbers.dtype)
    rows.append((bad.view(torch.uint16) if form == "bfloat16" else bad).numpy())
    assert np.isnan(rows.largest)
