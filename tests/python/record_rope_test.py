"""The recorded rotation turns the recorded keys back into what the projection put out."""

import h5py
import numpy as np
import pytest
import torch

from kvsim.record import RecordWarning, recording
from nightly import a_third_by_day
from record_zoo import build, generate, longrope, padded, tokens

KNOWN = {  # name: (the module whose output is not rotated yet, style, rotated dimensions)
    "llama": ("k_proj", "half", 16),
    "llama-yarn": ("k_proj", "half", 16),
    "qwen2": ("k_proj", "half", 16),
    "qwen3": ("k_norm", "half", 24),
    "mistral": ("k_proj", "half", 16),
    "gemma2": ("k_proj", "half", 16),
    "gpt_neox": ("query_key_value", "half", 4),
    "phi": ("k_proj", "half", 8),
    "stablelm": ("k_proj", "half", 4),
    "granite": ("k_proj", "half", 16),
    "cohere": ("k_proj", "interleaved", 16),
    "glm": ("k_proj", "interleaved", 8),
}
UNKNOWN = {
    "deepseek_v3": "it rotates the last dimensions",
    "opt": "it does not rotate",
    "gpt2": "it does not rotate",
    "gpt_bigcode": "it does not rotate",
}


def unrotated(file: h5py.File, keys: np.ndarray) -> np.ndarray:
    """Keys [heads, n, dim] by the definition of /rope."""
    rope = file["rope"]
    frequencies, factor = rope["inv_freq"][()], rope.attrs["attention_factor"]
    half = len(frequencies)
    angle = np.arange(keys.shape[1])[:, None] * frequencies
    result = keys.astype(np.float64)
    interleaved = rope.attrs["style"].decode() == "interleaved"
    first = slice(0, 2 * half, 2) if interleaved else slice(0, half)
    second = slice(1, 2 * half, 2) if interleaved else slice(half, 2 * half)
    pairs = (result[..., first] + 1j * result[..., second]) * np.exp(-1j * angle) / factor
    result[..., first], result[..., second] = pairs.real, pairs.imag
    return result


def projections(model, module_name: str, heads: int, dim: int):
    """Collects per layer what the module puts out, [heads, new, dim] a step."""
    collected: dict[int, list[np.ndarray]] = {}

    def collector(layer: int):
        def hook(_module, _args, output):
            if module_name == "query_key_value":  # [query, key, value] of each head
                numbers = output.reshape(*output.shape[:2], heads, 3, dim)[0, :, :, 1]
            else:
                numbers = output.reshape(1, -1, heads, dim)[0]
            collected.setdefault(layer, []).append(numbers.detach().numpy().transpose(1, 0, 2))

        return hook

    found = [part for name, part in model.named_modules() if name.endswith("." + module_name)]
    assert len(found) == 3
    for layer, part in enumerate(found):
        part.register_forward_hook(collector(layer))
    return collected


@a_third_by_day
@pytest.mark.parametrize("name", KNOWN)
def test_keys_turn_back(name, tmp_path):
    module_name, style, rotated = KNOWN[name]
    model, path = build(name), tmp_path / "t.h5"
    config = model.config
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    collected = projections(model, module_name, heads, dim)
    with recording(model, path, dtype="float32"):
        generate(model, tokens(40), 12)
    with h5py.File(path) as file:
        assert file["rope"].attrs["style"].decode() == style
        assert file["rope/inv_freq"].shape == (rotated // 2,)
        assert file["rope/inv_freq"].dtype == np.float64
        assert (file["rope"].attrs["attention_factor"] == 1) == (name != "llama-yarn")
        for layer in range(3):
            keys = file[f"sequences/sequence-0/layers/{layer}/key"][()]
            expected = np.concatenate(collected[layer], axis=1)
            assert np.abs(keys - expected).max() > 0.1
            np.testing.assert_allclose(unrotated(file, keys), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_cannot_be_known_is_left_out_and_a_rotation_missed(name, tmp_path, recwarn):
    model, path = build(name), tmp_path / "t.h5"
    with recording(model, path):
        generate(model, tokens(10), 3)
    notes = [str(note.message) for note in recwarn if note.category is RecordWarning]
    rotates = name == "deepseek_v3"
    assert rotates == any("does not say how keys of layer 0 are rotated" in note for note in notes)
    with h5py.File(path) as file:
        assert "rope" not in file, UNKNOWN[name]


def test_layers_that_agree_have_a_rotation(tmp_path):
    model, path = build("gemma3"), tmp_path / "t.h5"
    with recording(model, path, layers=[0, 2]):
        generate(model, tokens(10), 3)
    with h5py.File(path) as file:
        assert "rope" in file


def test_positions_that_are_not_those_of_the_text(tmp_path):
    model, path = build("llama"), tmp_path / "t.h5"
    ids, mask = padded([9, 5])
    with recording(model, path), torch.no_grad():
        model(ids, attention_mask=mask)  # counts the padding
    with h5py.File(path) as file:
        assert "rope" not in file


def test_a_rotation_that_changes_with_the_length(tmp_path):
    rope = dict(rope_type="dynamic", rope_theta=1e4, factor=2.0)
    for length, known in ((20, True), (300, False)):
        path = tmp_path / f"{length}.h5"
        model = build("llama", rope_parameters=rope)
        with recording(model, path):
            generate(model, tokens(10), 2)
            generate(model, tokens(length), 2)
        with h5py.File(path) as file:
            assert ("rope" in file) == known


def test_layers_that_rotate_otherwise_have_a_rotation_of_their_own(tmp_path, recwarn):
    model, path = build("gemma3"), tmp_path / "t.h5"
    with recording(model, path):
        generate(model, tokens(10), 3)
    bases = [1e4, 1e6, 1e4]  # of sliding and full attention
    with h5py.File(path) as file:
        assert "rope" not in file and "rope" not in file["sequences/sequence-0"]
        for layer, group in enumerate(file["sequences/sequence-0/layers"].values()):
            frequency = group["rope/inv_freq"][1]
            assert frequency == pytest.approx(bases[layer] ** (-2 / 16), rel=1e-6)
    assert not [note for note in recwarn if note.category is RecordWarning]


def test_a_layer_that_does_not_rotate_has_angles_of_0(tmp_path, recwarn):
    model, path = build("smollm3"), tmp_path / "t.h5"
    with recording(model, path):
        generate(model, tokens(10), 3)
    with h5py.File(path) as file:
        layers = file["sequences/sequence-0/layers"]
        found = [group["rope/inv_freq"][()].tolist() for group in layers.values()]
    assert found[1] == [0] and found[0] == found[2] and len(found[0]) == 8
    assert not [note for note in recwarn if note.category is RecordWarning]


@pytest.mark.parametrize("lengths", [(40, 30), (100,), (40, 100, 30)])
def test_texts_that_the_model_rotates_otherwise_have_a_rotation_of_their_own(lengths, tmp_path):
    model, path = longrope(64), tmp_path / "t.h5"
    with recording(model, path, dtype="float32"), torch.no_grad():
        for length in lengths:
            model(tokens(length))
    of_text = [1 if length <= 64 else 1 / 4 for length in lengths]
    with h5py.File(path) as file:
        if len(set(of_text)) == 1:
            assert file["rope/inv_freq"][0] == of_text[0]
            return
        assert "rope" not in file
        texts = file["sequences"].values()
        assert [text["rope/inv_freq"][0] for text in texts] == of_text
