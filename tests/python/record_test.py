"""What the recorder writes is what the model computed, whatever the architecture."""

from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
import transformers

from kvsim.model.cache import cache_argument, returned_cache
from kvsim.record import RecordWarning, recording
from nightly import a_third_by_day
from record_zoo import (
    CONFIGS,
    build,
    check,
    generate,
    padded,
    tokens,
)
from trace_format import token_texts

SHARED_MODEL = Path(__file__).resolve().parents[3] / "shared/models/tiny-llama"
PROMPT, NEW = 20, 12
TOKENS = PROMPT + NEW - 1  # the last one is never fed back


def texts(path):
    with h5py.File(path) as file:
        return {name: group["token_ids"][()].tolist() for name, group in file["sequences"].items()}


@a_third_by_day
@pytest.mark.parametrize("name", CONFIGS)
def test_a_trace_holds_what_the_model_read_and_generated(name, tmp_path):
    model, path = build(name), tmp_path / f"{name}.h5"
    ids = tokens(PROMPT)
    expected = generate(model, ids, NEW)
    with recording(model, path, dtype="float32"):
        generated = generate(model, ids, NEW)
    assert torch.equal(expected, generated)
    check(path, 1e-4)
    with h5py.File(path) as file:
        sequence = file["sequences/sequence-0"]
        assert sequence["token_ids"][()].tolist() == generated[0, :-1].tolist()
        assert dict(sequence.attrs) == {"num_tokens": TOKENS, "prompt_length": PROMPT}
        assert sorted(sequence["layers"]) == ["0", "1", "2"]
        assert file.attrs["num_layers"] == 3
        assert file.attrs["kvtrace_version"] == 2
        for layer in sequence["layers"].values():
            for part, dataset in layer.items():
                if part == "rope":
                    continue
                assert dataset.dtype == np.float32
                if part == "sink_logit":
                    continue
                assert dataset.chunks[0] == 1 and dataset.chunks[1] <= 1024


@pytest.mark.parametrize(
    "name", ["llama", "mistral", "gemma2", "gpt_neox", "opt", "gpt2", "gpt_oss", "llama4"]
)
def test_a_padded_batch_becomes_one_sequence_per_text(name, tmp_path):
    model, path = build(name), tmp_path / f"{name}.h5"
    ids, mask = padded([20, 7, 13])
    with recording(model, path, dtype="float32", names=["a", "b", "c"]):
        generated = generate(model, ids, NEW, attention_mask=mask)
    check(path, 1e-4)
    assert texts(path) == {
        name: row[20 - length : -1].tolist()
        for name, row, length in zip("abc", generated, [20, 7, 13], strict=True)
    }
    with h5py.File(path) as file:
        lengths = [group.attrs["prompt_length"] for group in file["sequences"].values()]
        assert lengths == [20, 7, 13]
        assert ("rope" in file) == (name not in ("opt", "gpt2", "llama4"))


def test_padding_changes_nothing_but_rounding(tmp_path):
    model = build("mistral")
    ids, mask = padded([20, 7])
    with recording(model, tmp_path / "batch.h5", dtype="float32"):
        generate(model, ids, NEW, attention_mask=mask)
    with recording(model, tmp_path / "alone.h5", dtype="float32"):
        generate(model, ids[1:, -7:], NEW)
    with h5py.File(tmp_path / "batch.h5") as batch, h5py.File(tmp_path / "alone.h5") as alone:
        for layer in "012":
            for part in ("query", "key", "value", "output"):
                one = batch[f"sequences/sequence-1/layers/{layer}/{part}"][()]
                other = alone[f"sequences/sequence-0/layers/{layer}/{part}"][()]
                np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def test_a_pass_without_generation_has_no_prompt(tmp_path):
    model, path = build("qwen2"), tmp_path / "t.h5"
    ids, mask = padded([9, 14])
    with recording(model, path, dtype="float32"), torch.no_grad():
        model(ids.flip(1), attention_mask=mask.flip(1))  # padded on the right
        model(tokens(11))
    check(path, 1e-4)
    assert [len(text) for text in texts(path).values()] == [9, 14, 11]
    with h5py.File(path) as file:
        assert file["sequences/sequence-2"].attrs["prompt_length"] == 0


@pytest.mark.parametrize("name", ["gemma2", "gpt_oss", "llama4"])
def test_a_prompt_in_pieces_is_one_prompt(name, tmp_path):
    model, path = build(name), tmp_path / "t.h5"
    with recording(model, path, dtype="float32"):
        generate(model, tokens(PROMPT), NEW, prefill_chunk_size=6)
    check(path, 1e-4)
    with h5py.File(path) as file:
        assert file["sequences/sequence-0"].attrs["prompt_length"] == PROMPT
        assert file["sequences/sequence-0"].attrs["num_tokens"] == TOKENS


@pytest.mark.parametrize("length", [13, 18])
def test_the_prompt_is_what_generate_is_given_whatever_its_pieces(length, tmp_path):
    model, path = build("llama"), tmp_path / "t.h5"
    with recording(model, path):
        generate(model, tokens(length), NEW, prefill_chunk_size=6)  # 13: the last piece is a token
        generate(model, tokens(1), NEW)
    with h5py.File(path) as file:
        lengths = [group.attrs["prompt_length"] for group in file["sequences"].values()]
        assert lengths == [length, 1]


def test_a_text_fed_token_by_token_is_whole_and_has_no_prompt(tmp_path):
    model, path = build("llama"), tmp_path / "t.h5"
    ids = torch.cat([tokens(6), tokens(6, seed=1)])
    ids[0, 3] = model.generation_config.eos_token_id
    with recording(model, path), torch.no_grad():
        cache = None
        for column in ids.T:
            cache = returned_cache(
                model(column[:, None], **cache_argument(model, cache), use_cache=True)
            )
    assert list(texts(path).values()) == ids.tolist()
    with h5py.File(path) as file:
        assert file["sequences/sequence-0"].attrs["prompt_length"] == 0


def test_a_loop_of_ones_own_tells_the_prompt_and_its_end_tokens(tmp_path):
    model, path = build("llama"), tmp_path / "t.h5"
    ids = torch.cat([tokens(6), tokens(6, seed=1)])
    ids[:, 1], ids[0, 4] = 9, 9
    with recording(model, path, end_tokens=[9]) as recorder, torch.no_grad():
        recorder.label(["a", "b"], prompt_length=3)
        cache = returned_cache(model(ids[:, :3], use_cache=True))
        for column in ids.T[3:]:
            model(column[:, None], **cache_argument(model, cache))
    assert texts(path) == {"a": ids[0, :4].tolist(), "b": ids[1].tolist()}
    with h5py.File(path) as file:
        assert file["sequences/a"].attrs["prompt_length"] == 3


@pytest.mark.parametrize("options", [{}, {"use_cache": False}])
def test_a_text_that_begins_as_the_one_before_is_another_text(options, tmp_path):
    model, path = build("llama"), tmp_path / "t.h5"
    with recording(model, path), torch.no_grad():
        model(tokens(6)[:, :5], **options)
        model(tokens(6), **options)
    assert [len(ids) for ids in texts(path).values()] == [5, 6]


def test_the_source_is_that_of_every_text(tmp_path):
    model, path = build("llama"), tmp_path / "t.h5"
    with recording(model, path, names=["a"], source="a book"), torch.no_grad():
        model(tokens(5))
        model(tokens(6))
    with h5py.File(path) as file:
        sources = {
            name: group.attrs["source"].decode() for name, group in file["sequences"].items()
        }
    assert sources == {"a": "a book", "sequence-1": "a book"}


def test_the_end_of_a_text_is_the_end_of_its_sequence(tmp_path):
    model, path = build("llama"), tmp_path / "t.h5"
    ids, mask = padded([8, 8])
    expected = generate(model, ids, NEW, attention_mask=mask)
    # Whatever the first text generates fourth becomes the token that ends it.
    end = expected[0, 8 + 3].item()
    assert end not in expected[1, 8:].tolist() + expected[0, 8 : 8 + 3].tolist()
    model.generation_config.eos_token_id = end
    with recording(model, path, dtype="float32"):
        generate(model, ids, NEW, attention_mask=mask, min_new_tokens=None)
    first, second = texts(path).values()
    assert first == expected[0, : 8 + 3].tolist()
    assert second == expected[1, :-1].tolist()
    check(path, 1e-4)


def test_only_the_layers_asked_for_are_recorded(tmp_path):
    model, path = build("gemma2"), tmp_path / "t.h5"
    with recording(model, path, layers=[1, 2]):
        generate(model, tokens(PROMPT), NEW)
    check(path, 1e-2)
    with h5py.File(path) as file:
        layers = file["sequences/sequence-0/layers"]
        assert sorted(layers) == ["1", "2"]
        assert "sliding_window" not in layers["1"].attrs
        assert layers["2"].attrs["sliding_window"] == 8
        assert file.attrs["num_layers"] == 3
        assert file.attrs["logit_softcap"] == 5
        assert file.attrs["scale"] == pytest.approx(24**-0.5)


def test_an_attention_that_the_recorder_replaces_is_named(tmp_path):
    model = build("llama")
    model.set_attn_implementation("flex_attention")
    replaced = pytest.warns(RecordWarning, match="attends with flex_attention; .* with sdpa")
    with replaced, recording(model, tmp_path / "t.h5"), torch.no_grad():
        model(tokens(5))


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_the_model_is_left_as_it_was(implementation, tmp_path):
    model = build("llama")
    model.set_attn_implementation(implementation)
    source = transformers.models.llama.modeling_llama
    rotate = source.apply_rotary_pos_emb
    with pytest.raises(ZeroDivisionError), recording(model, tmp_path / "t.h5"):
        generate(model, tokens(5), 3)
        raise ZeroDivisionError
    assert model.config._attn_implementation == implementation
    assert source.apply_rotary_pos_emb is rotate
    assert not model._forward_hooks and not model._forward_pre_hooks
    assert "generate" not in vars(model)
    assert list(tmp_path.iterdir()) == []
    with recording(model, tmp_path / "t.h5", dtype="float32"):
        generate(model, tokens(PROMPT), NEW)
    assert model.config._attn_implementation == implementation
    check(tmp_path / "t.h5", 1e-4)


@pytest.mark.skipif(not SHARED_MODEL.is_dir(), reason="the trained model is not there")
def test_a_trained_model_is_recorded_with_its_texts(tmp_path):
    model = transformers.AutoModelForCausalLM.from_pretrained(SHARED_MODEL, dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(SHARED_MODEL)
    text = "The harbour lies at the mouth of the river, where the ships wait for the tide."
    inputs = tokenizer(text, return_tensors="pt")
    path = tmp_path / "t.h5"
    with recording(model, path, tokenizer=tokenizer, names=["harbour"], source="a sentence"):
        generated = model.generate(**inputs, max_new_tokens=200, do_sample=False)
    check(path, 1e-2)
    with h5py.File(path) as file:
        sequence = file["sequences/harbour"]
        assert sequence.attrs["source"].decode() == "a sentence"
        assert file.attrs["model"].decode() == "tiny-llama"
        characters = token_texts(sequence)
        assert "".join(characters).endswith(tokenizer.decode(generated[0, -40:-1]))
        assert file["rope"].attrs["style"].decode() == "half"
