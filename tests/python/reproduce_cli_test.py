"""python -m kvsim.reproduce, as a user meets it: its texts and what it refuses."""

import json

import pytest

import kvsim
from kvsim.closed_loop.texts import InputText
from kvsim.errors import RecordError
from kvsim.model.spans import Span
from kvsim.reproduce.__main__ import main
from kvsim.reproduce.data import fields_of, read_groups, with_prompt
from record_zoo import build, letters


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny-llama"
    build("llama").save_pretrained(folder)
    letters().save_pretrained(folder)
    return folder


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _lines(path, *texts):
    path.write_text("".join(json.dumps(text) + "\n" for text in texts))
    return path


def test_every_file_is_a_group_and_every_text_has_a_name(work):
    one = _lines(
        work / "five.jsonl", {"text": "a b", "name": "first"}, {"text": "c"}, {"text": "d"}
    )
    two = _lines(work / "ten.jsonl", "e")
    groups = read_groups([one, two], [], "model", 2, None, 8)
    assert [(group.name, [text.name for text in group.texts]) for group in groups] == [
        ("five", ["first", "five-2"]), ("ten", ["ten-1"])
    ]  # fmt: skip


def test_two_texts_of_one_name_are_refused(work):
    files = [_lines(work / f"{name}.jsonl", {"text": "a", "name": "same"}) for name in ("b", "c")]
    with pytest.raises(kvsim.UsageError, match="two files or texts are named same; rename one"):
        read_groups(files, [], "model", 2, None, 8)


def test_a_plain_text_is_cut_into_pieces(work):
    path = work / "book.txt"
    path.write_text("abcdefghijklmnopqrstuvwxyz")
    (group,) = read_groups([], [path], "model", 6, letters(), 10)
    assert [text.text for text in group.texts] == ["abcdefghij", "klmnopqrst"]
    assert [text.name for text in group.texts] == ["book-0", "book-10"]
    (group,) = read_groups([], [path], "model", 1, letters(), 10)
    assert len(group.texts) == 1
    with pytest.raises(kvsim.UsageError, match=r"--tokens 27: .*book\.txt has 26 tokens"):
        read_groups([], [path], "model", 6, letters(), 27)


def test_texts_that_lie_with_the_model_are_found(work):
    folder = work / "models" / "one"
    folder.mkdir(parents=True)
    _lines(work / "models" / "texts.jsonl", "next to it")
    assert read_groups([], [], str(folder), 6, None, 8)[0].texts[0].text == "next to it"
    _lines(folder / "texts.jsonl", "within")
    assert read_groups([], [], str(folder), 6, None, 8)[0].texts[0].text == "within"
    assert read_groups([], [], "models/one/", 6, None, 8)[0].texts[0].text == "within"


def test_a_prompt_ends_before_the_first_question():
    spans = (Span(2, 4, "needle"), Span(9, 11, "question"), Span(11, 12, "answer"))
    text = InputText("0123456789abcdef", "line 1", "one", spans)
    assert with_prompt(text).prompt_length == 9
    assert with_prompt(InputText(text.text, "line 1", "one", spans[2:])).prompt_length == 11
    own = InputText(text.text, "line 1", "one", spans, 5)
    assert with_prompt(own).prompt_length == 5
    with pytest.raises(kvsim.UsageError, match=r"line 1: has no prompt .* or use --mode stream"):
        with_prompt(InputText(text.text, "line 1", "one", spans[:1]))


def test_the_fields_of_a_text_are_those_of_a_line():
    text = InputText("abc", "line 1", "one", (Span(0, 1, "answer"),), 2)
    assert fields_of(text) == {
        "text": "abc", "name": "one", "spans": [(0, 1, "answer")], "prompt_length": 2
    }  # fmt: skip
    assert "prompt_length" not in fields_of(InputText("abc", "line 1", "one"))


def test_a_line_that_is_no_text_is_named(work):
    path = _lines(work / "texts.jsonl", "a", {"txt": "b"})
    with pytest.raises(RecordError, match=r"texts\.jsonl line 2"):
        read_groups([path], [], "model", 6, None, 8)


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["h2o", "MODEL"], 2, "--texts: expected FILE.jsonl, or --text FILE, since there is no"),
        (["nothing", "MODEL"], 2, "invalid choice"),
        (["h2o", "MODEL", "--budgets", "20%,x"], 2, "expected shares or tokens as in 5%,64"),
        (["subgen", "MODEL", "--new-tokens", "3"], 2, "unrecognized arguments: --new-tokens 3"),
        (["h2o", "MODEL", "--texts", "missing.jsonl"], 3, "missing.jsonl"),
        (["h2o", "./missing", "--texts", "t.jsonl"], 3, "./missing: there is no such folder"),
        (["subgen", "MODEL", "--texts", "t.jsonl"], 2, "has no prompt that could be cut"),
        (["h2o", "MODEL", "--texts", "t.jsonl", "--device", "tpu"], 2, "--device"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(folder, work, capsys, arguments, status, said):
    _lines(work / "t.jsonl", "abc def")
    arguments = [str(folder) if each == "MODEL" else each for each in arguments]
    try:
        assert main(arguments) == status
    except SystemExit as exit_:
        assert exit_.code == status
    lines = [line for line in capsys.readouterr().err.splitlines() if "kvsim: error: " in line]
    assert len(lines) == 1 and said in lines[0]
