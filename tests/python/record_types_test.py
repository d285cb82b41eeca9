"""The types in which a recorder stores numbers: float16 where that is exact enough."""

import dataclasses
import os
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from kvsim.model.masks import Reach
from kvsim.model.shape import Shape
from kvsim.record import recording, stored_type
from kvsim.record.spool import Spool, SpooledRows
from kvsim.record.stored_type import Attention
from nightly import sample_of
from record_zoo import (
    CONFIGS,
    build,
    check,
    generate,
    refuse,
    sharp,
    tokens,
    verify_with_program,
    worst_error,
)

PROGRAM = os.environ.get("KVSIM_PROGRAM")
PROMPT, NEW = 20, 12


def read(model):
    with torch.no_grad():
        model(tokens(12))


def reach_of(layer):
    return Reach(layer.attrs.get("sliding_window"), layer.attrs.get("attention_chunk"))


def attention_of(layer, shape):
    sinks = layer["sink_logit"][()] if "sink_logit" in layer else None
    return Attention(shape, reach_of(layer), sinks)


def stored(layer):
    """The vectors of a layer of a file as the recorder has them before, and their types."""
    rows, types, spool = {}, {}, Spool(Path(layer.file.filename))
    for name in ("query", "key", "value", "output"):
        numbers = layer[name][()]
        rows[name] = SpooledRows(spool, numbers.shape[0], numbers.shape[2], numbers.itemsize)
        rows[name].append(numbers.astype(np.float32))
        rows[name].flush()
        types[name] = str(numbers.dtype)
    return rows, types


@pytest.mark.parametrize("name", sample_of(list(CONFIGS)[::3], CONFIGS))
def test_numbers_rounded_to_float16_still_verify(name, tmp_path):
    model, path = build(name), tmp_path / f"{name}.h5"
    with recording(model, path):
        generate(model, tokens(PROMPT), NEW)
    check(path, 1e-2)


def test_a_layer_that_float16_rounds_too_much_is_stored_in_float32(tmp_path):
    model, path = build("llama"), tmp_path / "t.h5"
    with recording(model, path), torch.no_grad():
        model(tokens(PROMPT))
        sharp(model)
        model(tokens(PROMPT))
    with h5py.File(path) as file:
        types = {
            (name, layer): {str(group[part].dtype) for part in group}
            for name, sequence in file["sequences"].items()
            for layer, group in sequence["layers"].items()
        }
        assert file.attrs["dtype"].decode() == "mixed"
    assert types.pop(("sequence-1", "1")) == {"float32"}
    assert len(types) == 5 and all(each == {"float16"} for each in types.values())
    verify_with_program(path)
    if PROGRAM:
        info = subprocess.run([PROGRAM, "info", path], capture_output=True, text=True).stdout
        assert "numbers       float16 in 5 layers, float32 in 1 layer\n" in info


def test_numbers_that_do_not_fit_into_float16_are_stored_in_float32(tmp_path):
    model, path = build("llama"), tmp_path / "t.h5"
    with torch.no_grad():
        model.model.layers[1].self_attn.v_proj.weight *= 1e6
        with recording(model, path):
            model(tokens(PROMPT))
    with h5py.File(path) as file:
        assert file["sequences/sequence-0/layers/1/value"].dtype == np.float32
        assert file["sequences/sequence-0/layers/0/value"].dtype == np.float16
    verify_with_program(path)


def test_numbers_too_large_for_float16_ask_for_float32(tmp_path):
    path = tmp_path / "t.h5"
    model = build("llama")
    with torch.no_grad():
        model.model.layers[1].self_attn.v_proj.weight *= 1e6
    reason = "layer 1, value: .* does not fit into float16; use --dtype auto or float32"
    refuse(model, path, reason, read, dtype="float16")
    with recording(model, path, dtype="float32"):
        read(model)


def test_numbers_that_float16_rounds_too_much_are_refused_after_the_first_text(tmp_path):
    path = tmp_path / "t.h5"
    model = sharp(build("llama"))

    def run(model):
        read(model)
        read(model)
        pytest.fail("the second text began")

    reason = "layer 1: .* that kvsim verify allows; use --dtype auto or float32"
    refuse(model, path, reason, run, dtype="float16")
    with recording(model, path, dtype="float32"):
        read(model)
    verify_with_program(path)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_half_precision_models_pass_verification(kind, dtype, tmp_path):
    model, path = build("llama").to(kind), tmp_path / "t.h5"
    with recording(model, path, dtype=dtype):
        generate(model, tokens(PROMPT), NEW)
    check(path, 1e-2)
    with h5py.File(path) as file:
        assert file["rope"].attrs["style"].decode() == "half"
        layer = file["sequences/sequence-0/layers/1"]
        assert layer["key"].dtype == dtype and layer["output"].dtype == "float16"


def test_the_recorder_measures_the_error_that_is_there(tmp_path):
    for name in ("gemma2", "mistral", "llama", "gpt_oss", "llama4"):
        model, path = build(name), tmp_path / f"{name}.h5"
        with recording(model, path):
            generate(model, tokens(PROMPT), NEW)
        with h5py.File(path) as file:
            names = [field.name for field in dataclasses.fields(Shape)]
            shape = Shape(**{name: file.attrs.get(name) for name in names})
            found = max(
                stored_type.worst_error(*stored(group), attention_of(group, shape))
                for group in file["sequences/sequence-0/layers"].values()
            )
        assert found == pytest.approx(worst_error(path), rel=1e-3)
