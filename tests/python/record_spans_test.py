"""Labelled parts of texts, from lines of JSON and from Python, into a trace."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import tokenizers
import torch
import transformers

import kvsim
from kvsim.model.encoding import encode
from kvsim.model.texts import Text, read_prompts
from kvsim.record import RecordWarning, UsageError, recording
from kvsim.record.__main__ import main
from kvsim.trace import Span
from record_zoo import LETTERS, build, check, fail, letters, tokens
from trace_format import checked_id

TEXT = "the ships wait. where, in the harbour."
WORDS = ["<s>", "<unk>", "the", " ships", " wait", ".", " where", ",", " in", " harbour"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny-llama"
    build("llama").save_pretrained(folder)
    letters().save_pretrained(folder)
    return str(folder)


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def lines(*fields):
    Path("texts.jsonl").write_text("\n".join(map(json.dumps, fields)))
    return "texts.jsonl"


def words():
    """A tokenizer with a token per word, the blank before included, after a special token."""
    known = {word: index for index, word in enumerate(WORDS)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(known, unk_token="<unk>"))
    each = tokenizers.Regex(r" ?\w+|[.,]")
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Split(each, "isolated")
    begin = tokenizers.processors.TemplateProcessing("<s> $A", None, [("<s>", 0)])
    tokenizer.post_processor = begin
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>")


def test_lines_with_spans_become_sequences_with_spans(folder):
    spans = [[4, 9, "needle"], [16, 22, "question"], [23, 38, "answer"], [4, 38, "needle"]]
    file = lines(
        {"text": TEXT, "spans": spans, "name": "facts", "prompt_length": 23},
        {"text": "a river", "spans": []},
        "rain",
    )
    assert main([folder, "--texts", file, "-o", "t.h5", "--dtype", "float32"]) == 0
    check(Path("t.h5"), 1e-4)
    trace = kvsim.Trace("t.h5")
    found = {sequence.name: sequence for sequence in trace.sequences}
    assert found["facts"].spans == tuple(Span(*span) for span in spans)
    assert found["facts"].prompt_length == 23
    assert found["facts"].spans[0].label == "needle"
    unit = trace.unit("facts")
    start, end, _ = found["facts"].spans[2]
    assert "".join(unit.token_text[start:end]) == "in the harbour."
    assert found["prompt-2"].spans == found["prompt-3"].spans == ()
    assert found["prompt-2"].prompt_length == 0
    with h5py.File("t.h5") as opened:
        group = opened["sequences/facts/spans"]
        assert [group[name].dtype for name in ("start", "end")] == [np.int32, np.int32]
        assert group["label"].dtype == np.uint8
        assert group["label_offsets"].dtype == np.int64
        assert "spans" not in opened["sequences/prompt-2"]
    assert kvsim.Trace("t.h5").trace_id == checked_id("t.h5")


def test_the_trace_id_depends_on_the_spans(folder):
    ids = set()
    for span in ([0, 3, "needle"], [0, 4, "needle"], [0, 3, "answer"], None):
        file = lines({"text": TEXT, "name": "a", "spans": span and [span]})
        assert main([folder, "--prompts", file, "-o", "t.h5"]) == 0
        ids.add(kvsim.Trace("t.h5").trace_id)
    assert len(ids) == 4


def test_a_batch_that_generates_keeps_the_spans_of_each_text(folder):
    file = lines(
        {"text": "a tide, and rain", "name": "long", "spans": [[2, 6, "needle"]]},
        {"text": "rain", "name": "short", "spans": [[0, 4, "needle"]]},
    )
    options = ["--batch-size", "2", "--max-new-tokens", "6", "--dtype", "float32"]
    assert main([folder, "--texts", file, "-o", "t.h5", *options]) == 0
    found = {sequence.name: sequence for sequence in kvsim.Trace("t.h5").sequences}
    assert found["long"].spans == (Span(2, 6, "needle"),)
    assert found["short"].spans == (Span(0, 4, "needle"),)
    assert found["short"].prompt_length == 4 < found["short"].num_tokens


def test_a_token_across_the_end_belongs_to_the_span_and_to_the_prompt():
    def encoded(spans=(), prompt=None):
        labels = tuple(Span(*span) for span in spans)
        return encode(words(), Text("a", TEXT, "a source", None, labels, prompt), None, None)

    assert [WORDS[token] for token in encoded().ids][:5] == ["<s>", "the", " ships", " wait", "."]
    # "ships" without its blank; a part of it; what begins in a token and ends in another
    spans = [(4, 9, "whole"), (6, 7, "part"), (8, 11, "across"), (0, 38, "all")]
    assert encoded(spans).spans == ((2, 3, "whole"), (2, 3, "part"), (2, 4, "across"),
                                    (1, len(encoded().ids), "all"))  # fmt: skip
    assert encoded(prompt=3).prompt_length == 2
    assert encoded(prompt=4).prompt_length == encoded(prompt=9).prompt_length == 3
    assert encoded(prompt=0).prompt_length == 0
    assert encoded().prompt_length is None


def test_spans_of_characters_beyond_ascii_hold_their_tokens():
    text = "\u00e9t\u00e9 \U0001f30a\U0001f30a e\u0301"
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator([], trainer)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    wave = text.index("\U0001f30a")
    spans = (Span(0, 3, "word"), Span(wave + 1, wave + 2, "wave"))
    found = encode(fast, Text("a", text, "a source", None, spans), None, None)
    start, end, _ = found.spans[0]
    assert fast.decode(found.ids[start:end]) == "\u00e9t\u00e9"
    start, end, _ = found.spans[1]
    assert end - start == 4  # bytes
    assert fast.decode(found.ids[start:end]) == "\U0001f30a"


def test_spans_beyond_a_cut_are_left_out_with_a_warning():
    spans = (Span(0, 3, "in"), Span(4, 9, "across"), Span(10, 14, "out"))
    text = Text("a", TEXT, "a source", None, spans)
    with pytest.warns(RecordWarning, match="a source: 2 of 3 spans end after its first 8 tokens"):
        found = encode(letters(), text, None, 8)
    assert (len(found.ids), found.spans) == (8, ((0, 3, "in"),))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"text": "rain", "spans": 3}, "spans: expected a list of [first character, end, label]"),
        ({"text": "rain", "spans": [[0, 3]]}, "spans: expected (start, end, label), found [0, 3]"),
        ({"text": "rain", "spans": ["abc"]}, "spans: expected (start, end, label), found 'abc'"),
        ({"text": "rain", "spans": [[0, 2.0, "a"]]}, "expected (start, end, label), found [0, 2.0"),
        ({"text": "rain", "spans": [[0, True, "a"]]}, "expected (start, end, label)"),
        ({"text": "rain", "spans": [[0, 2, None]]}, "expected (start, end, label)"),
        ({"text": "rain", "spans": [[2, 2, "a"]]},
         "spans: expected 0 <= start < end <= 4 in characters, found 2 and 2 of 'a'"),
        ({"text": "rain", "spans": [[-1, 2, "a"]]}, "found -1 and 2 of 'a'"),
        ({"text": "rain", "spans": [[0, 4, "a"], [1, 5, "b"]]}, "found 1 and 5 of 'b'"),
        ({"text": "rain", "spans": [[0, 2, "a\0b"]]}, "expected a text as label, found"),
        ({"text": "rain", "spans": [[0, 2, "\ud800"]]}, "expected a text as label, found"),
        ({"text": "rain", "prompt_length": 4}, "prompt_length: expected 0..3 characters, found 4"),
        ({"text": "rain", "prompt_length": -1}, "prompt_length: expected 0..3 characters"),
        ({"text": "rain", "prompt_length": "2"}, "expected 0..3 characters, found '2'"),
        ({"text": "rain", "prompt_length": True}, "expected 0..3 characters, found True"),
        ({"prompt": "a", "text": "b", "spans": [[0, 1, "a"]]},
         "spans counts the characters of one text; join prompt and text"),
        ({"prompt": "a", "text": "b", "prompt_length": 1},
         "prompt_length counts the characters of one text"),
    ],
)  # fmt: skip
def test_a_line_that_is_wrong_is_a_data_error(line, message, folder, capsys):
    file = lines("first", line)
    fail(capsys, 3, message, folder, "--texts", file, "-o", "t.h5")
    with pytest.raises(kvsim.RecordError, match=r"texts\.jsonl: line 2: "):
        read_prompts(Path(file))


def test_a_prompt_that_is_given_twice_or_leaves_no_token_is_refused(folder, capsys):
    file = lines({"text": "rain", "prompt_length": 2})
    message = "--prompt-length: texts.jsonl line 1 gives its own; leave one of them out"
    fail(capsys, 2, message, folder, "--texts", file, "--prompt-length", "2", "-o", "t.h5")
    message = "--max-prompt-tokens 2: the prompt of texts.jsonl line 1 has 2 tokens"
    fail(capsys, 2, message, folder, "--texts", file, "--max-prompt-tokens", "2", "-o", "t.h5")
    text = Text("a", "the ships", "a source", prompt_length=4)
    with pytest.raises(kvsim.RecordError, match="the prompt of 4 characters holds all 3 tokens"):
        encode(words(), text, None, None)


def test_a_span_that_no_token_holds_is_refused():
    text = Text("a", "the  ships", "a source", spans=(Span(3, 4, "blank"),))
    with pytest.raises(kvsim.RecordError, match="a source: no token holds a character of the span"):
        encode(words_without_blanks(), text, None, None)


def words_without_blanks():
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def test_python_labels_the_next_sequences():
    model = build("llama")
    with recording(model, "t.h5") as recorder, torch.inference_mode():
        spans = [[(0, 2, "needle"), (np.int64(5), np.int64(6), "answer")], []]
        recorder.label(["a", "b"], spans=spans)
        recorder.label(["c"])
        model(tokens(6)), model(tokens(4, 1)), model(tokens(5, 2))
    found = {sequence.name: sequence.spans for sequence in kvsim.Trace("t.h5").sequences}
    assert found == {"a": ((0, 2, "needle"), (5, 6, "answer")), "b": (), "c": ()}


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([], "spans: expected a list for each of 1 names, found 0"),
        ([(0, 2, "needle")], r"expected \(start, end, label\), found 0"),
        (["needle"], "expected for each name a list"),
        ([[(0, 0, "needle")]], "0 <= start < end in tokens, found 0 and 0 of 'needle'"),
        (
            [[(0, 7, "needle")]],
            "sequence a: expected spans of its 6 tokens, found 0 to 7, 'needle'",
        ),
    ],
)
def test_labels_of_tokens_that_are_not_there_are_refused(spans, message):
    model = build("llama")
    with (
        pytest.raises(UsageError, match=message),
        recording(model, "t.h5") as recorder,
        torch.inference_mode(),
    ):
        recorder.label(["a"], spans=spans)
        model(tokens(6))
    assert not Path("t.h5").exists()


def test_letters_cover_the_texts():
    assert set(TEXT) <= set(LETTERS)
