"""A prompt with a given continuation, from the command line and from Python."""

from pathlib import Path

import h5py
import pytest
import tokenizers
import torch

from conftest import PROGRAM, needs_program
from kvsim.model.encoding import encode
from kvsim.model.texts import Text
from kvsim.record import RecordWarning, UsageError, recording
from kvsim.record.__main__ import main
from record_zoo import build, check, fail, generate, letters, tokens
from trace_format import token_texts

DOCUMENT, ANSWER = "the ships wait for the tide. ", "they wait in the harbour."
BEGIN, END = 0, 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny-llama"
    build("llama").save_pretrained(folder)
    letters().save_pretrained(folder)
    return str(folder)


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("doc.txt").write_text(DOCUMENT)
    Path("answer.txt").write_text(ANSWER)


def recorded(path="t.h5"):
    """The text, the length of the prompt and the source of each sequence."""
    with h5py.File(path) as file:
        return {
            name: (
                "".join(token_texts(group)),
                int(group.attrs["prompt_length"]),
                group.attrs["source"].decode(),
            )
            for name, group in file["sequences"].items()
        }


def record(folder, *arguments):
    assert main([folder, "-o", "t.h5", "--dtype", "float32", *map(str, arguments)]) == 0
    check(Path("t.h5"), 1e-4)
    return recorded()


def test_a_document_with_its_answer_is_one_sequence_whose_prompt_is_the_document(folder):
    found = record(folder, "--prompt", "doc.txt", "--text", "answer.txt")
    assert found == {"answer": (DOCUMENT + ANSWER, len(DOCUMENT), "doc.txt and answer.txt")}


def test_the_vectors_are_those_of_the_whole_text(folder):
    Path("whole.txt").write_text(DOCUMENT + ANSWER)
    record(folder, "--text", "whole.txt")
    Path("t.h5").rename("whole.h5")
    record(folder, "--prompt", "doc.txt", "--text", "answer.txt")
    with h5py.File("whole.h5") as whole, h5py.File("t.h5") as pair:
        for layer in "012":
            for part in ("query", "key", "value", "output"):
                one = whole[f"sequences/whole/layers/{layer}/{part}"][()]
                assert (one == pair[f"sequences/answer/layers/{layer}/{part}"][()]).all()


@pytest.mark.parametrize("size", [1, 3])
def test_pairs_and_their_order_whatever_the_batch(size, folder):
    Path("other.txt").write_text("a tide.")
    found = record(
        folder, "--prompt", "doc.txt", "--text", "answer.txt", "--prompt", "answer.txt",
        "--text", "other.txt", "--batch-size", size,
    )  # fmt: skip
    assert found == {
        "answer": (DOCUMENT + ANSWER, len(DOCUMENT), "doc.txt and answer.txt"),
        "other": (ANSWER + "a tide.", len(ANSWER), "answer.txt and other.txt"),
    }


def test_a_line_of_prompts_may_hold_a_continuation(folder):
    lines = ['{"prompt": "rain, ", "text": "and a river", "name": "both"}', '"a harbour"']
    Path("p.jsonl").write_text("\n".join(lines))
    found = record(folder, "--prompts", "p.jsonl")
    assert found == {
        "both": ("rain, and a river", 6, "p.jsonl line 1"),
        "prompt-2": ("a harbour", 0, "p.jsonl line 2"),
    }


def test_the_first_tokens_of_each_text_are_its_prompt(folder):
    found = record(folder, "--text", "doc.txt", "--text", "answer.txt", "--prompt-length", 24)
    assert found == {
        "doc": (DOCUMENT, 24, "doc.txt"),
        "answer": (ANSWER, 24, "answer.txt"),
    }


@pytest.mark.parametrize("size", [1, 2])
def test_what_is_generated_follows_the_given_continuation(size, folder):
    asked = ["--max-new-tokens", 4, "--batch-size", size]
    found = record(
        folder, "--text", "doc.txt", "--text", "answer.txt", "--prompt-length", 5, *asked
    )
    for text, name in ((DOCUMENT, "doc"), (ANSWER, "answer")):
        whole, prompt_length, _ = found[name]
        assert whole.startswith(text) and len(whole) > len(text)
        assert prompt_length == 5


def test_a_continuation_is_cut_and_its_prompt_is_not(folder):
    pair = ["--prompt", "doc.txt", "--text", "answer.txt"]
    found = record(folder, *pair, "--max-prompt-tokens", len(DOCUMENT) + 4)
    assert found["answer"][:2] == (DOCUMENT + "they", len(DOCUMENT))


@needs_program
def test_the_program_replays_it_in_prefill_mode(folder, program):
    record(folder, "--prompt", "doc.txt", "--text", "answer.txt")
    chosen = ["--mode", "prefill", "--budgets", "50%", "--policies", "window", "--quiet"]
    program("sweep", "t.h5", *chosen, "-o", "results.sqlite", cwd=Path.cwd())
    assert PROGRAM and Path("results.sqlite").exists()


PAIR = ["--prompt", "doc.txt", "--text", "answer.txt"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--prompt", "doc.txt"], "one of the arguments --text --prompts/--texts is required"),
        (["--prompt", "doc.txt", "--prompts", "p.jsonl"],
         "--prompt: expected --text FILE with its continuation, found a file of lines"),
        ([*PAIR, "--text", "doc.txt"],
         "--prompt: expected one for each --text FILE, 2 in all, found 1"),
        (["--prompt", "doc.txt", *PAIR],
         "--prompt: expected one for each --text FILE, 1 in all, found 2"),
        (["--text", "answer.txt", "--text", "./answer.txt"],
         "--text answer.txt: an earlier text is named answer; rename one"),
        ([*PAIR, "--prompt-length", "4"],
         "--prompt-length: the prompt of doc.txt and answer.txt is given as a text; leave it out"),
        (["--prompts", "p.jsonl", "--prompt-length", "2"], "the prompt of p.jsonl line 1 is given"),
        (["--text", "answer.txt", "--prompt-length", "0"],
         "--prompt-length: expected a whole number from 1 on, found 0"),
        (["--text", "answer.txt", "--prompt-length", "25"],
         "--prompt-length 25: answer.txt has 25 tokens, and one must follow the prompt; give less "
         "than 25"),
        (["--text", "doc.txt", "--text", "answer.txt", "--prompt-length", "28"],
         "--prompt-length 28: answer.txt has 25 tokens"),
        (["--text", "answer.txt", "--prompt-length", "9", "--max-prompt-tokens", "9"],
         "--max-prompt-tokens 9: the prompt of answer.txt has 9 tokens, and one must follow it; "
         "give more than 9"),
        ([*PAIR, "--max-prompt-tokens", "28"],
         "--max-prompt-tokens 28: the prompt of doc.txt and answer.txt has 29 tokens, and one must "
         "follow it; give more than 29"),
        ([*PAIR, "--max-new-tokens", "250"],
         "54 tokens and 250 new ones are more than the model's 256 positions; use a shorter "
         "prompt"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_in_one_line_and_nothing_is_cut(arguments, message, folder, capsys):
    Path("p.jsonl").write_text('{"prompt": "rain", "text": "and a river"}')
    fail(capsys, 2, message, folder, "-o", "t.h5", *arguments)


def test_a_prompt_or_a_continuation_without_text_is_a_data_error(folder, capsys):
    Path("empty.txt").touch()
    command = [folder, "-o", "t.h5"]
    fail(capsys, 3, "found an empty file", *command, "--prompt", "empty.txt", "--text", "doc.txt")
    fail(capsys, 3, "found an empty file", *command, "--prompt", "doc.txt", "--text", "empty.txt")
    Path("p.jsonl").write_text('{"prompt": "rain", "text": ""}')
    fail(capsys, 3, "p.jsonl: line 1: expected a string or", *command, "--prompts", "p.jsonl")


def test_special_tokens_are_at_the_beginning_only():
    tokenizer = letters()
    tokenizer.backend_tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", BEGIN), ("</s>", END)]
    )
    alone, pair = Text("a", "rain", "a"), Text("a", "in", "a", "ra")
    word = letters()("rain")["input_ids"]
    assert encode(tokenizer, alone, None, None).ids == [BEGIN, *word, END]
    assert encode(tokenizer, pair, None, None).ids == [BEGIN, *word]
    assert encode(tokenizer, pair, None, None).prompt_length == 3


def prompts(path):
    with h5py.File(path) as file:
        return {name: group.attrs["prompt_length"] for name, group in file["sequences"].items()}


def test_python_gives_the_prompt_for_all_sequences_or_for_some():
    model = build("llama")
    with recording(model, "t.h5", prompt_length=6, names=["a"]) as recorder, torch.no_grad():
        model(tokens(9))
        model(tokens(9))
        recorder.label(["c"], prompt_length=2)
        generate(model, tokens(9), 4)
        recorder.label(["d"], prompt_length=0)
        model(tokens(9))
    assert prompts("t.h5") == {"a": 6, "sequence-1": 6, "c": 2, "d": 0}


def test_an_end_token_within_a_given_continuation_ends_nothing():
    model = build("llama")
    ids = torch.cat([tokens(9), tokens(9, seed=1)])
    ids[0, 6] = END
    with recording(model, "t.h5", prompt_length=6):
        generate(model, ids, 4, prefill_chunk_size=6)
    with h5py.File("t.h5") as file:
        lengths = [group.attrs["num_tokens"] for group in file["sequences"].values()]
    assert lengths == [12, 12]


def test_python_refuses_a_prompt_longer_than_the_text():
    model = build("llama")
    negative = pytest.raises(UsageError, match="prompt_length: expected 0")
    with negative, recording(model, "t.h5", prompt_length=-1):
        pass
    longer = pytest.raises(UsageError, match="sequence-0: expected a prompt_length below its 9")
    with longer, recording(model, "t.h5", prompt_length=10), torch.no_grad():
        model(tokens(9))
    assert not Path("t.h5").exists()


def test_a_sequence_that_ends_with_its_prompt_is_said_to_have_none():
    model = build("llama")
    noted = pytest.warns(RecordWarning, match="sequence-0 ends with its prompt of 9 tokens")
    with noted, recording(model, "t.h5", prompt_length=9), torch.no_grad():
        model(tokens(9))
    assert prompts("t.h5") == {"sequence-0": 0}
