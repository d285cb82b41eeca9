"""kvsim.second_reading: the attention that tokens get while a model reads its text again."""

from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

import kvsim
from kvsim.second_reading.wording import INSTRUCTIONS
from record_zoo import build, letters, longrope, tokens
from second_readings import HEADS, LAYERS, LENGTH, PROMPT, read_again, scores_in, two_texts


@pytest.fixture(scope="module")
def model():
    return build("llama")


@pytest.fixture(scope="module")
def trace(model, tmp_path_factory):
    return two_texts(model, tmp_path_factory.mktemp("again") / "t.h5")


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def ids_of(text):
    return letters().encode(text, add_special_tokens=False)


def expected(config, ids, chunk, sinks=4, suffix="\n"):
    """From the model's own weights in one pass over text and request, renormalised."""
    model = build(config)
    model.set_attn_implementation("eager")
    n = len(ids)
    found = np.zeros((LAYERS, model.config.num_key_value_heads, n), np.float32)
    for start in range(0, n, chunk):
        end = min(start + chunk, n)
        asked = ids_of(INSTRUCTIONS[0])
        if start > 0:
            asked = ids_of(INSTRUCTIONS[1]) + ids[max(0, start - min(8, chunk)) : start]
        again = [*asked, *ids_of(suffix), *ids[start:end]]
        with torch.no_grad():
            weights = model(torch.tensor([ids + again]), output_attentions=True).attentions
        first = min(sinks, start)
        seen = [*range(first), *range(start, end), *range(n, n + len(again))]
        for layer in range(LAYERS):
            rows = weights[layer][0, :, n:, seen].double()
            rows = (rows / rows.sum(-1, keepdim=True))[..., first : first + end - start]
            found[layer, :, start:end] = rows.amax(1).unflatten(0, (HEADS, -1)).amax(1).numpy()
    return found


@pytest.mark.parametrize("chunk", [2048, PROMPT, 10, 5])
def test_scores_are_the_largest_renormalised_weights_of_the_model(chunk, model, trace):
    found = read_again(model, trace, chunk=chunk)
    assert set(found) == {"one", "two"}
    for seed, name in enumerate(found):
        ids = tokens(LENGTH, seed)[0, :PROMPT].tolist()
        np.testing.assert_allclose(found[name], expected("llama", ids, chunk), atol=1e-5)
        assert found[name].min() > 0 and found[name].max() <= 1


def test_the_whole_text_other_words_and_other_sinks(model, trace):
    ids = tokens(LENGTH)[0].tolist()
    found = read_again(
        model, trace, reads="text", chunk=12, sinks=2, suffix=" now, ", sequences="one"
    )
    assert list(found) == ["one"]
    asked = expected("llama", ids, 12, sinks=2, suffix=" now, ")
    np.testing.assert_allclose(found["one"], asked, atol=1e-5)
    other = read_again(model, trace, reads="text", chunk=12, instruction="again")
    assert abs(other["one"] - asked).max() > 1e-3


def test_a_chat_template_gives_the_suffix(model, trace):
    tokenizer = letters()
    tokenizer.chat_template = "{% for m in messages %}a {{ m.content }} b{% endfor %}, c"
    kvsim.second_reading(model, trace, "s.h5", tokenizer=tokenizer, progress=False)
    found = scores_in("s.h5")["one"]
    ids = tokens(LENGTH)[0, :PROMPT].tolist()
    np.testing.assert_allclose(found, expected("llama", ids, 99, suffix=" b, c"), atol=1e-5)
    tokenizer.chat_template = "{% for m in messages %}{{ m.role }}{% endfor %}"
    with pytest.raises(kvsim.UsageError, match="suffix: expected a chat template that repeats"):
        kvsim.second_reading(model, trace, "s.h5", tokenizer=tokenizer, progress=False)


def test_progress_counts_the_passes(model, trace):
    seen = []
    kvsim.second_reading(
        model, trace, "s.h5", tokenizer=letters(), chunk=9, progress=lambda *at: seen.append(at)
    )
    assert seen == [(done, 8) for done in range(1, 9)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reads": "all"}, "reads: expected prompt or text, found 'all'"),
        ({"chunk": 0}, "chunk: expected a whole number from 1 on, found 0"),
        ({"sinks": -1}, "sinks: expected a whole number from 0 on, found -1"),
        ({"sequences": "three"}, "sequences: expected some of one, two, found three"),
        ({"instruction": ("a", "b", "c")}, "instruction: expected a text, or one for the first"),
        ({"budgets": "b.npy"}, "budgets: expected one sequence, found 2; name one in sequences"),
        ({"budgets": "b.txt"}, r"budgets: expected a file .npy, found b.txt"),
        ({"suffix": "a" * 200},
         "sequence one: 26 tokens and .* to read again are more than the model's 256 positions"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_in_one_line_and_nothing_is_written(options, message, model, trace):
    with pytest.raises(kvsim.UsageError, match=message) as raised:
        read_again(model, trace, **options)
    assert "\n" not in str(raised.value)
    assert list(Path().iterdir()) == []


def test_another_model_than_that_of_the_trace_is_refused(trace):
    fewer = build("llama", num_hidden_layers=2)
    with pytest.raises(kvsim.UsageError, match="model: expected 3 layers, as in the trace, found"):
        read_again(fewer, trace)
    heads = build("gpt_neox")
    with pytest.raises(kvsim.UsageError, match="model: expected num_kv_heads 2 in layer 0"):
        read_again(heads, trace)
    other = build("llama")
    with torch.no_grad():
        other.model.layers[2].self_attn.k_proj.weight.normal_()
    with pytest.raises(kvsim.UsageError, match="model: its keys of sequence one, layer 2, are oth"):
        read_again(other, trace)
    assert list(Path().iterdir()) == []


def recorded(model, path, **options):
    with kvsim.recording(model, path, **options), torch.no_grad():
        model(tokens(LENGTH))
    return path


def test_a_text_without_prompt_or_token_ids_is_refused(model, trace):
    recorded(model, "p.h5")
    with pytest.raises(kvsim.UsageError, match="reads: sequence sequence-0 has no prompt"):
        read_again(model, "p.h5")
    assert read_again(model, "p.h5", reads="text")["sequence-0"].shape[-1] == LENGTH
    unit = kvsim.Trace(trace).unit("one")
    arrays = kvsim.Trace.from_arrays(unit.query, unit.key[None], unit.value[None], num_layers=3)
    with pytest.raises(kvsim.DataError, match="sequence sequence: expected token ids, found none"):
        read_again(model, arrays, reads="text")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("mistral", "layer 0 attends to the last 8 tokens only, fewer than the text's 26 and"),
        ("gpt_oss", "layer 0 attends to the last 8 tokens only"),
        ("llama4", "layer 0 attends within chunks of 10 tokens only"),
    ],
)
def test_layers_that_do_not_see_all_tokens_are_refused(kind, message):
    model = build(kind)
    recorded(model, "w.h5", prompt_length=PROMPT)
    with pytest.raises(kvsim.DataError, match=message) as raised:
        read_again(model, "w.h5")
    assert "\n" not in str(raised.value) and not Path("s.h5").exists()


def test_a_window_that_reaches_the_text_from_its_end_changes_no_score():
    """The text has 26 tokens; the instruction, a line feed and the text again are 64."""
    found = []
    for window in (None, 90, 89):
        model = build("mistral", sliding_window=window)
        recorded(model, "w.h5", prompt_length=PROMPT)
        if window == 89:
            message = "layer 0 attends to the last 89 tokens only, fewer than the text's 26 and 64"
            with pytest.raises(kvsim.DataError, match=message):
                read_again(model, "w.h5")
        else:
            found.append(read_again(model, "w.h5")["sequence-0"])
    np.testing.assert_allclose(found[1], found[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["gemma2", "gpt_oss"])
def test_soft_caps_and_learned_sinks_take_their_part(kind):
    """Of the layer that sees all tokens; its weights are the model's, before it renormalises."""
    model = build(kind)
    recorded(model, "w.h5", prompt_length=PROMPT, layers=[1])
    kvsim.second_reading(model, "w.h5", "s.h5", tokenizer=letters(), progress=False)
    with h5py.File("s.h5") as file:
        assert list(file["sequences/sequence-0/layers"]) == ["1"]
        heads = file["sequences/sequence-0/layers/1/kv_heads"]
        found = np.array([heads[str(head)]["scores"][()] for head in range(HEADS)])
    ids = tokens(LENGTH)[0, :PROMPT].tolist()
    again = ids_of(INSTRUCTIONS[0]) + ids_of("\n") + ids
    model.set_attn_implementation("eager")
    with torch.no_grad():
        weights = model(torch.tensor([ids + again]), output_attentions=True).attentions[1][0]
    # One chunk from the first token on: all columns are seen.
    asked = weights[:, PROMPT:, :PROMPT].amax(1).unflatten(0, (HEADS, -1)).amax(1)
    np.testing.assert_allclose(found, asked.numpy(), atol=1e-5)


class FarTokens:
    """A tokenizer of a larger vocabulary than the model's."""

    def encode(self, text, add_special_tokens):
        return [70]


def test_a_tokenizer_of_another_model_is_refused(model, trace):
    with pytest.raises(kvsim.UsageError, match="sequence one: expected token ids below 64, found "):
        kvsim.second_reading(model, trace, "s.h5", tokenizer=FarTokens())
    with pytest.raises(kvsim.UsageError, match="tokenizer: the model does not say where it was"):
        kvsim.second_reading(model, trace, "s.h5")
    assert list(Path().iterdir()) == []


def test_a_rotation_that_changes_between_the_readings_is_refused():
    model = longrope(64)
    recorded(model, "r.h5", prompt_length=PROMPT)
    with pytest.raises(
        kvsim.RecordError, match="the model rotates keys otherwise beyond 64 tokens"
    ):
        read_again(model, "r.h5")
    assert not Path("s.h5").exists()
