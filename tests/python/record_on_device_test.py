"""Attention is compared on the device, and says of no layer more than the CPU would."""

import itertools
from unittest import mock

import h5py
import numpy as np
import pytest
import torch

import device_double
from kvsim.model.attention import Call
from kvsim.model.masks import Reach
from kvsim.model.shape import Shape
from kvsim.record import RecordError, RecordWarning, on_device, recording, stored_type
from kvsim.record.on_device import DeviceErrors, worst_fused, worst_in_blocks
from kvsim.record.spool import Spool, SpooledRows
from kvsim.record.stored_type import Attention, Compared
from nightly import sample_of
from record_zoo import CONFIGS, build, generate, padded, sharp, tokens

TOKENS, HEADS, KV_HEADS = 70, 4, 2
NAMES = ("query", "key", "value", "output")


def vectors(head_dim, value_dim, size=1.0, seed=0):
    """Random ones [heads, n, dim]; the outputs are of nothing."""
    random = torch.Generator().manual_seed(seed)
    dims = (HEADS, head_dim), (KV_HEADS, head_dim), (KV_HEADS, value_dim), (HEADS, value_dim)
    drawn = [torch.randn(heads, TOKENS, dim, generator=random) for heads, dim in dims]
    drawn[2] *= size
    drawn[3] *= 0.01 * size
    return dict(zip(NAMES, drawn, strict=True))


def by_the_engine(rows, kind, attention, folder):
    spooled, spool = {}, Spool(folder / "t.h5")
    for name, numbers in rows.items():
        spooled[name] = SpooledRows(spool, numbers.shape[0], numbers.shape[2], 4)
        spooled[name].append(numbers.numpy())
        spooled[name].flush()
    return stored_type.worst_error(spooled, dict.fromkeys(NAMES, kind), attention)


@pytest.mark.parametrize(
    ("cap", "reach", "has_sinks"),
    [
        (None, Reach(), False),
        (5.0, Reach(window=9), False),
        (None, Reach(chunk=16), True),
        (None, Reach(window=20, chunk=32), False),
    ],
)
def test_blocks_find_the_error_that_the_engine_finds(cap, reach, has_sinks, tmp_path, monkeypatch):
    monkeypatch.setattr(on_device, "LOGITS_AT_ONCE", 13 * 2 * TOKENS)  # 13 rows of one KV head
    rows, shape = vectors(16, 24), Shape(HEADS, KV_HEADS, 16, 24, 0.4, cap)
    sinks = torch.linspace(-1, 3, HEADS) if has_sinks else None
    found = worst_in_blocks(rows, shape, reach, sinks)
    attention = Attention(shape, reach, None if sinks is None else sinks.numpy())
    expected = by_the_engine(rows, "float32", attention, tmp_path)
    assert float(found) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("dims", [(16, 16), (16, 40), (40, 16)])
def test_a_fused_kernel_finds_it_up_to_its_rounding(dims, tmp_path, monkeypatch):
    monkeypatch.setattr(on_device, "_fuses", lambda *_: True)
    rows, shape = vectors(*dims), Shape(HEADS, KV_HEADS, *dims, 0.4, None)
    halves = {name: numbers.half() for name, numbers in rows.items()}
    exact = worst_in_blocks(halves, shape, Reach(), None)
    # Outputs that attention nearly gives, as those of a model.
    weights = on_device._weights(
        halves["query"].unflatten(0, (KV_HEADS, -1)).float(), halves["key"].float(), 0, 0, shape,
        Reach(), None,
    )  # fmt: skip
    rows["output"] = (weights @ halves["value"].float()[:, None]).flatten(0, 1)
    rows["output"] += 0.004 * torch.randn(rows["output"].shape)
    halves["output"] = rows["output"].half()
    expected = by_the_engine(rows, "float16", Attention(shape, Reach(), None), tmp_path)
    types = dict.fromkeys(NAMES, "float16")
    assert 1e-3 < expected < float(exact)
    assert abs(float(worst_fused(halves, 0.4)) - expected) < on_device._rounding(types)
    small = {name: numbers * 2**-16 if name in NAMES[2:] else numbers for name, numbers in
             halves.items()}  # fmt: skip
    assert np.isnan(float(worst_fused(small, 0.4)))


def test_what_is_seen_in_part_or_capped_takes_no_fused_kernel(monkeypatch):
    monkeypatch.setattr(on_device, "_fuses", lambda *_: True)
    calls = []
    fused = mock.Mock(side_effect=lambda stored, scale: calls.append(scale) or torch.tensor(0.0))
    monkeypatch.setattr(on_device, "worst_fused", fused)
    for cap, reach, asked, times in (
        (None, Reach(), "auto", 1), (None, Reach(window=TOKENS), "float16", 2),
        (None, Reach(), "float32", 2), (None, Reach(window=TOKENS - 1), "auto", 2),
        (None, Reach(chunk=8), "auto", 2), (3.0, Reach(), "auto", 2),
    ):  # fmt: skip
        shape = Shape(HEADS, KV_HEADS, 16, 16, 0.4, cap)
        DeviceErrors().look(0, vectors(16, 16), asked, shape, reach, None)
        assert len(calls) == times, (cap, reach, asked)


def layers_compared_on_the_cpu(monkeypatch):
    """The dimension of what the CPU compares, as it does."""
    seen, own = [], stored_type.worst_error

    def worst_error(layer, types, *rest):
        seen.append(types["key"])
        return own(layer, types, *rest)

    monkeypatch.setattr(stored_type, "worst_error", worst_error)
    return seen


def types_in(path):
    types = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, x: types.update({name: x.dtype}) if "layers" in name and
                        hasattr(x, "dtype") else None)  # fmt: skip
    return types


def record(path, model, device="cuda", **options):
    """A text that is read, and a padded batch."""
    ids, mask = padded([9, 20])
    with recording(model.to(device), path, **options) as recorder, torch.no_grad():
        recorder.read(tokens(30)[0].tolist())
        model(ids.to(device), attention_mask=mask.to(device))
    return types_in(path)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    sample_of(
        [("gemma2", "auto"), ("gpt_oss", "float32")],  # caps and windows; sinks
        list(itertools.product(CONFIGS, ("auto", "float32"))),
    ),
)
def test_nothing_is_left_to_compare_on_the_cpu(kind, dtype, tmp_path, monkeypatch):
    expected = record(tmp_path / "t.h5", build(kind), "cpu", dtype=dtype)
    seen = layers_compared_on_the_cpu(monkeypatch)
    with device_double.found():
        assert record(tmp_path / "t.h5", build(kind), dtype=dtype) == expected
    assert seen == []


def test_what_the_device_does_not_show_is_compared_on_the_cpu(tmp_path, monkeypatch):
    path, ids = tmp_path / "t.h5", tokens(20)
    seen = layers_compared_on_the_cpu(monkeypatch)
    with device_double.found():
        types = record(path, sharp(build("llama")))
        assert seen == ["float16", "float32"] * 2  # layer 1 of two of the texts
        assert {str(types[f"sequences/sequence-0/layers/{i}/key"]) for i in (0, 2)} == {"float16"}
        assert types["sequences/sequence-0/layers/1/key"] == "float32"
        seen.clear()
        model = build("llama").to("cuda")
        with recording(model, path):
            generate(model, ids.to("cuda"), 3)
        assert seen == ["float16"] * 3  # its later keys came from a cache
        with pytest.raises(RecordError, match=r"layer 1: .* use --dtype auto or float32"):
            record(path, sharp(build("llama")), dtype="float16")


@pytest.mark.parametrize(
    "error",
    sample_of(
        [RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED")],
        [torch.cuda.OutOfMemoryError(), RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED")],
    ),
)
def test_a_device_without_memory_left_leaves_it_to_the_cpu(error, tmp_path, monkeypatch):
    def refuse(*_):
        raise error

    seen = layers_compared_on_the_cpu(monkeypatch)
    monkeypatch.setattr(on_device, "worst_in_blocks", refuse)
    with device_double.found():
        model = build("llama").to("cuda")
        with recording(model, tmp_path / "t.h5", layers=[1]), torch.no_grad():
            model(tokens(9).to("cuda"))
    assert seen == ["float16"]


def test_outputs_that_are_none_of_attention_are_found_on_a_device(tmp_path, monkeypatch):
    own = Call.attend
    monkeypatch.setattr(Call, "attend", lambda call: (own(call)[0] * 1.02, None))
    messages = []
    for device in ("cpu", "cuda"):
        with device_double.found(), pytest.warns(RecordWarning) as raised:
            record(tmp_path / "t.h5", build("llama"), device, layers=[2])
        messages.append([str(each.message) for each in raised])
    assert messages[0] == messages[1]
    assert "layer 2: attention recomputed from the trace is 2.0e-02 off" in messages[0][0]


def test_comparing_waits_for_the_device_once_a_text(tmp_path, monkeypatch):
    def waits(compares):
        monkeypatch.setattr("kvsim.record.recorder.is_compared", lambda _: compares)
        with device_double.found() as device:
            model = build("llama").to("cuda")
            with recording(model, tmp_path / "t.h5") as recorder, torch.no_grad():
                begun = device.own_waits()
                model(tokens(20).to("cuda"))
                read = device.own_waits()
                recorder.end_texts()
                return read - begun, device.own_waits() - read

    (in_pass, at_end), (in_plain_pass, at_plain_end) = waits(True), waits(False)
    assert (in_pass, at_end) == (in_plain_pass, at_plain_end + 1)


def test_an_error_near_the_limit_or_of_other_types_is_not_taken(tmp_path):
    rows, shape = vectors(16, 16), Shape(HEADS, KV_HEADS, 16, 16, 0.4, None)
    spool = Spool(tmp_path / "t.h5")
    layer = {}
    for name, numbers in rows.items():
        layer[name] = SpooledRows(spool, *numbers.shape[::2], 4)
        layer[name].append(numbers.numpy())
        layer[name].flush()
    half, whole = (dict.fromkeys(NAMES, kind) for kind in ("float16", "float32"))
    with mock.patch.object(stored_type, "worst_error", return_value=0.0) as compare:
        for types, error, times in (
            (half, 9.9e-3, 0), (half, 1.1e-2, 1), (half, float("nan"), 2), (whole, 0.0, 3)
        ):  # fmt: skip
            given = Attention(shape, Reach(), None, compared=Compared(types, error))
            assert stored_type.stored_types(layer, "auto", given, "here") == half
            assert compare.call_count == times
