"""kvsim.convert brings files of the format to its newest version."""

import h5py
import numpy as np
import pytest

import kvsim


def _foreign(path) -> np.ndarray:
    """A file of version 1 as h5py writes one: contiguous, big endian, without a trace_id."""
    key = np.random.default_rng(0).standard_normal((1, 6, 4)).astype(">f4")
    with h5py.File(path, "w") as file:
        file.attrs.update(kvtrace_version=1, model="foreign", num_layers=1, num_query_heads=2,
                          num_kv_heads=1, head_dim=4, value_dim=4, scale=0.5)  # fmt: skip
        sequence = file.create_group("sequences/a")
        sequence.attrs.update(num_tokens=6, prompt_length=0)
        sequence["token_text"] = np.array(list("abcdeé"), dtype=h5py.string_dtype())
        layer = sequence.create_group("layers/0")
        layer["query"] = np.concatenate([key, -key]).astype("f2")
        layer["key"] = key
        layer["value"] = key.astype("f2")
        file["notes"] = "kept elsewhere"
    return key


def test_a_file_of_another_program_is_converted(tmp_path) -> None:
    key = _foreign(tmp_path / "old.h5")
    old = kvsim.Trace(tmp_path / "old.h5")
    with pytest.warns(kvsim.KvsimWarning, match="does not know it: /notes"):
        new = kvsim.convert(old, tmp_path / "new.h5", progress=False)
    np.testing.assert_array_equal(new.unit("a", 0, 0).key, key[0])
    with h5py.File(tmp_path / "new.h5") as file:
        assert file.attrs["kvtrace_version"] == 2
        assert file.attrs["trace_id_v1"] == old.trace_id.encode()
        assert file["sequences/a/layers/0/key"].dtype == np.float32
        assert file["sequences/a/layers/0/query"].dtype == np.float16
        assert bytes(file["sequences/a/token_text"][:]).decode() == "abcdeé"
        assert "notes" not in file
    again = kvsim.convert(new, tmp_path / "again.h5", progress=False)
    assert again.trace_id == new.trace_id


def test_a_trace_is_not_converted_in_place(tmp_path) -> None:
    _foreign(tmp_path / "old.h5")
    with pytest.raises(kvsim.UsageError, match="is the trace itself"):
        kvsim.convert(tmp_path / "old.h5", tmp_path / "old.h5")
