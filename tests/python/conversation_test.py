"""A context and what is asked about it, as one line."""

import pytest

import kvsim
from kvsim.tasks import Turn, conversation


def labelled(line, label):
    return [line["text"][start:end] for start, end, of in line["spans"] if of == label]


def test_a_conversation_is_laid_out():
    turns = [("Who?", "Ann"), Turn("When?", ["May", "June"], " In")]
    line = conversation("Ann paid.", turns, name="paid", task="facts", spans=[(0, 3, "needle")])
    assert line["text"] == "Ann paid.\n\nWho?\nAnswer: Ann\n\nWhen? In May, June"
    assert labelled(line, "needle") == ["Ann"] and labelled(line, "question") == ["Who?", "When?"]
    assert labelled(line, "turn") == ["Who?\nAnswer: Ann", "\n\nWhen? In May, June"]
    assert labelled(line, "answer") == [" Ann", " May", " June"]
    assert line["text"][: line["prompt_length"]] == "Ann paid.\n\n" and line["task"] == "facts"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "a/b"}, "name: expected a text without a slash"),
        ({"context": " "}, "paid: context: expected a text"),
        ({"turns": []}, "paid: turns: expected a question"),
        ({"turns": [("", "a")]}, "paid: turn 1: question: expected"),
        ({"turns": [("a", "b"), ("a", [])]}, r"paid: turn 2: answer: expected .*, found \[\]"),
        ({"turns": [("a", ["b", " "])]}, "paid: turn 1: answer: expected"),
        ({"spans": [(0, 99, "needle")]}, "end <= 9 in characters, found 0 and 99"),
        ({"depth": 1.5}, "paid: depth: expected 0 to 1, found 1.5"),
    ],
)
def test_what_is_no_conversation_is_refused(change, message):
    fields = {"context": "Ann paid.", "turns": [("Who?", "Ann")], "name": "paid"} | change
    with pytest.raises(kvsim.UsageError, match=message):
        conversation(**fields)
