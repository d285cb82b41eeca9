"""Texts of the closed loop: their forms, names, spans and prompts."""

import hashlib
import json

import numpy as np
import pytest
import tokenizers
import torch
import transformers

import kvsim
from kvsim.closed_loop.texts import input_texts, jobs_of
from kvsim.model.spans import Span, prompt_tokens, token_spans, with_offsets
from record_zoo import letters

TEXT = "a text, of letters."


def byte_level():
    """A tokenizer of bytes, with <s> before a text, that merges "th" and " th"."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<s>": 0} | {letter: 1 + index for index, letter in enumerate(alphabet)}
    vocabulary |= {"th": len(vocabulary), "Ġth": len(vocabulary) + 1}
    model = tokenizers.models.BPE(vocabulary, [("t", "h"), ("Ġ", "th")])
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>")


class WithoutOffsets:
    """The same tokenizer, without offsets, as those of Python alone."""

    is_fast = False

    def __init__(self, tokenizer):
        self._tokenizer = tokenizer

    def __call__(self, text, **options):
        assert "return_offsets_mapping" not in options
        return self._tokenizer(text, **options)

    def decode(self, ids, **options):
        return self._tokenizer.decode(ids, **options)


def job(text, tokenizer=None, names=None, prompt_length=None):
    (found,) = jobs_of(input_texts(text), tokenizer or letters(), names, prompt_length)
    return found


def test_one_text_has_many_forms(tmp_path):
    ids = letters()(TEXT)["input_ids"]
    (tmp_path / "story.txt").write_text(TEXT)
    (tmp_path / "many.jsonl").write_text(json.dumps(TEXT) + "\n\n" + json.dumps({"text": TEXT}))
    forms = [
        TEXT, [TEXT], {"text": TEXT}, ids, np.array(ids), torch.tensor(ids), torch.tensor([ids]),
        [np.array(ids, np.uint8)], tmp_path / "story.txt",
    ]  # fmt: skip
    for form in forms:
        found = job(form)
        assert found.ids.dtype == np.int32 and found.ids.tolist() == ids
        assert found.token_text == tuple(TEXT)
    digest = hashlib.sha256(np.array(ids, "<i4").tobytes()).hexdigest()
    assert job(TEXT).text_id == digest
    assert job(TEXT).name == f"text-{digest[:12]}"
    assert job(tmp_path / "story.txt").name == "story"
    assert job(TEXT, names=["mine"]).name == "mine"
    assert job({"text": TEXT, "name": "own"}).name == "own"
    assert len(input_texts(tmp_path / "many.jsonl")) == 2
    several = jobs_of(input_texts([TEXT, "other", {"text": "third"}]), letters(), None, 2)
    assert [(each.prompt_length, len(each.ids)) for each in several] == [(2, 19), (2, 5), (2, 5)]


def test_spans_become_the_tokens_that_hold_their_characters():
    text = "a thé 𝄞!"
    for tokenizer in (byte_level(), WithoutOffsets(byte_level())):
        ids, characters = with_offsets(tokenizer, text)
        assert len(ids) == len(characters) == 1 + 1 + 1 + 2 + 1 + 4 + 1
        expected = [(0, 0), (0, 1), (1, 4), (4, 5), (4, 5), (5, 6), *[(6, 7)] * 4, (7, 8)]
        assert characters == expected
        spans = [Span(3, 4, "h"), Span(4, 5, "accent"), Span(2, 8, "all"), Span(6, 7, "clef")]
        assert token_spans(characters, spans, "text") == [
            Span(2, 3, "h"), Span(3, 5, "accent"), Span(2, 11, "all"), Span(6, 10, "clef"),
        ]  # fmt: skip
        assert [prompt_tokens(characters, n) for n in (0, 1, 3, 4, 5, 7)] == [0, 2, 3, 3, 5, 10]
        with pytest.raises(kvsim.RecordError, match=r"text: no token holds .* \[8, 9\] answer"):
            token_spans(characters, [Span(8, 9, "answer")], "text")


def test_a_tokenizer_that_changes_the_text_cannot_place_spans():
    class Lower(WithoutOffsets):
        def decode(self, ids, **options):
            return super().decode(ids, **options).lower()

    with pytest.raises(kvsim.RecordError, match="Lower has no offsets and does not decode"):
        with_offsets(Lower(byte_level()), "A text")


def test_a_line_has_spans_and_a_prompt_in_characters():
    line = {"text": TEXT, "spans": [[2, 6, "needle"], [8, 10, "answer"]], "prompt_length": 7}
    found = job(line, byte_level())
    assert found.spans == (Span(3, 7, "needle"), Span(9, 11, "answer"))
    assert found.prompt_length == 8  # with <s>
    assert "".join(found.token_text[3:7]) == "text"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"bad.jsonl line 1: expected JSON"),
        ("3", r'bad.jsonl line 1: expected a string or \{"text"'),
        ('{"prompt": "a"}', r'expected a string or \{"text"'),
        ('{"text": "abc", "span": []}', "expected text, spans, name or prompt_length, found span"),
        ('{"text": "abc", "spans": [[0, 4, "x"]]}', "end <= 3 in characters, found 0 and 4"),
        ('{"text": "abc", "spans": [[2, 2, "x"]]}', "found 2 and 2 of 'x'"),
        ('{"text": "abc", "spans": [[0, 1]]}', r"found \[0, 1\]"),
        ('{"text": "abc", "spans": [[0, 1.5, "x"]]}', r"found \[0, 1.5, 'x'\]"),
        ('{"text": "abc", "spans": 3}', "spans: expected"),
        ('{"text": "abc", "prompt_length": 3}', r"expected 0\.\.2 characters, found 3"),
        ('{"text": ""}', "expected a text, found no token"),
        ("", "expected texts, found an empty file"),
    ],
)
def test_a_bad_line_is_named(line, message, tmp_path):
    (tmp_path / "bad.jsonl").write_text(line + "\n")
    with pytest.raises(kvsim.RecordError, match=message) as raised:
        job(tmp_path / "bad.jsonl")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        ([], {}, "texts: expected at least one"),
        (3.5, {}, "texts: expected a string, token ids, .* found a float"),
        ([3.5, 2.0], {}, r"texts\[0\]: expected a string"),
        ([-1, 3], {}, "expected token ids of 0 or more"),
        (TEXT, {"names": "x"}, "names: expected a list of names"),
        (TEXT, {"names": ["x", "y"]}, "names: expected 1, one for each text, found 2"),
        (TEXT, {"names": ["x/y"]}, "name: expected a text without a slash"),
        ([TEXT, TEXT], {}, r"texts\[1\]: an earlier text is named text-.*the same tokens"),
        ([TEXT, "b"], {"names": ["x", "x"]}, r"texts\[1\]: an earlier text is named x"),
        (TEXT, {"prompt_length": 19}, "has 19 tokens, and one must follow"),
        ({"text": TEXT, "prompt_length": 2}, {"prompt_length": 2}, "says its own, of 2 char"),
    ],
)  # fmt: skip
def test_texts_that_contradict_themselves_are_refused(texts, options, message):
    with pytest.raises(kvsim.UsageError, match=message) as raised:
        jobs_of(input_texts(texts), letters(), options.get("names"), options.get("prompt_length"))
    assert "\n" not in str(raised.value)
