"""Few-shot prompts from data sets of questions, and multiple choice by likelihood."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import kvsim
from kvsim.tasks import Question, Template, few_shot, multiple_choice, read_questions
from kvsim.tasks.__main__ import main
from nightly import sample_of

SAMPLE = Path(__file__).parents[2] / "traces/sample"
FACTS = "{context}{question}{answer}"
LINES = [
    {"question": "one and one?", "choices": ["two", "three"], "answer": 0},
    {"question": "two and two?", "choices": ["five", "four"], "answer": "four", "name": "sum"},
    {"question": "three and one?", "choices": ["four", "six"], "answer": 0, "context": "Add. ",
     "spans": [[0, 3, "needle"]]},
    {"question": "five and one?", "choices": ["seven", "six", "nine"], "answer": 1},
]  # fmt: skip


def written(path, lines=LINES):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def questions(tmp_path):
    return read_questions(written(tmp_path / "sums.jsonl"))


def labelled(text, label):
    return [text["text"][start:end] for start, end, of in text["spans"] if of == label]


def test_questions_are_read_as_documented(questions):
    assert [each.name for each in questions] == ["sums-1", "sum", "sums-3", "sums-4"]
    assert [each.answer for each in questions] == ["two", "four", "four", "six"]
    assert questions[2].context == "Add. "


def test_published_formats_are_read(tmp_path):
    path = tmp_path / "set.json"
    asked = "Please choose the correct answer to the question: Fog is near:\n\nAnswer1: a marsh "
    asked += "Answer2: a tundra\n\nAnswer format: answer1/answer2"
    path.write_text(json.dumps([{"instruction": asked, "input": "", "answer": "answer2"}]))
    assert read_questions(path) == [
        Question("set-1", "Fog is near:", "a tundra", ("a marsh", "a tundra"))
    ]
    choices = [{"text": "a marsh", "label": "A"}, {"text": "a tundra", "label": "B"}]
    line = {"id": "7-1", "question": {"stem": "Fog?", "choices": choices}, "answerKey": "A"}
    (found,) = read_questions(written(path, [line]))
    assert found == Question("7-1", "Fog?", "a marsh", ("a marsh", "a tundra"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"choices": ["a"]}, "line 1: question: expected a text, found None"),
        ({"question": "a?"}, "line 1: answer: expected a text or the place of a choice"),
        ({"question": "a?", "answer": "b", "choices": ["c"]}, "expected one of the choices"),
        ({"question": "a?", "answer": 0, "choices": ["c", "c"]}, "line 1: .*found 'c' 2 times"),
        ({"question": "a?", "answer": 0, "choices": ["a", "c", "c"]}, "found 'c' 2 times"),
        ({"question": "a?", "answer": 2, "choices": ["c", "d"]}, "expected 0 to 1, found 2"),
        ({"question": "a?", "answer": "b", "hint": "c"}, "found 'hint'"),
        ({"question": "a?", "answer": "b", "spans": [[0, 1, "x"]]}, "line 1: .*spans"),
        ({"instruction": "question: a?", "answer": "answer1"}, "Answer1: ... Answer2: ..."),
        ({"question": {"stem": "a?"}, "answerKey": "A"}, "expected {\"id\""),
        (7, "line 1: expected {\"question\""),
    ],
)  # fmt: skip
def test_what_is_no_question_is_named(line, message, tmp_path):
    with pytest.raises(kvsim.DataError, match=message):
        read_questions(written(tmp_path / "set.jsonl", [line]))


@pytest.mark.parametrize("label", ["shot", "question", "answer", "choice"])
def test_labels_of_prompts_are_refused_in_a_context(label, tmp_path):
    line = LINES[2] | {"spans": [[0, 3, label]]}  # "answer" would make each of its choices right
    with pytest.raises(kvsim.DataError, match=f"line 1: .*spans: .*found '{label}'; rename it"):
        read_questions(written(tmp_path / "set.jsonl", [line]))


def test_choices_of_published_formats_are_different_ones(tmp_path):
    choices = [{"text": "a marsh", "label": "A"}, {"text": "a marsh", "label": "B"}]
    line = {"id": "7-1", "question": {"stem": "Fog?", "choices": choices}, "answerKey": "A"}
    with pytest.raises(kvsim.DataError, match=r"7-1: choices: .*found 'a marsh' 2 times"):
        read_questions(written(tmp_path / "set.jsonl", [line]))


def test_an_example_is_solved_and_the_question_is_not_given_away(questions):
    text = next(few_shot(questions, 2, count=1))
    first, second = labelled(text, "shot")
    assert text["text"] == f"{first}\n\n{second}\n\nQuestion: one and one?\nAnswer: two"
    assert first.startswith(("Question: ", "Add. Question: ")) and "\nAnswer: " in first
    assert labelled(text, "question") == ["one and one?"] and labelled(text, "answer") == ["two"]
    assert text["text"][text["prompt_length"] :] == "\nAnswer: two"
    assert text["name"] == "sums-1.2-shot"


def test_spans_of_the_context_move_with_it_and_those_of_examples_go(questions):
    for text in few_shot(questions, 3):
        is_third = text["name"].startswith("sums-3")
        assert labelled(text, "needle") == (["Add"] if is_third else [])
        assert "Add. Question: three" in text["text"]  # all others are examples


def test_the_asked_question_is_never_an_example(questions):
    twin = Question("twin", "one and one?", "two", ("two", "three"))
    for text in few_shot([*questions, twin], 3):
        (asked,) = labelled(text, "question")
        assert not any(asked in shot for shot in labelled(text, "shot"))
    with pytest.raises(kvsim.UsageError, match=r"shots: expected at most 3, .* found 4"):
        list(few_shot(questions, 4))
    (alone,) = few_shot(questions[:1], 4, examples=[*questions, twin, *questions[1:2]])
    assert len(labelled(alone, "shot")) == 4


def test_prompts_are_the_seeds_and_fewer_shots_are_the_last_of_more(questions):
    three = list(few_shot(questions, 3))
    assert three == list(few_shot(questions, 3))
    assert three != list(few_shot(questions, 3, seed=1))
    assert three[:2] == list(few_shot(questions, 3, count=2))
    for one, all_ in zip(few_shot(questions, 1), three, strict=True):
        assert labelled(one, "shot") == labelled(all_, "shot")[-1:]


def test_every_example_is_drawn_about_as_often():
    questions = [Question(f"q{i}", f"{i}?", "a") for i in range(10)]
    drawn = Counter()
    for seed in range(100):
        for text in few_shot(questions, 2, seed=seed):
            drawn.update(labelled(text, "shot"))
    assert len(drawn) == 10
    assert max(drawn.values()) < 1.5 * min(drawn.values())


def test_without_a_cue_the_prompt_ends_before_the_question(questions):
    (text,) = few_shot(questions[2:3], 0, template=Template(FACTS))
    assert text["text"] == "Add. three and one?four"
    assert text["text"][: text["prompt_length"]] == "Add. "


@pytest.mark.parametrize("count", [0, -1])
def test_a_count_that_asks_nothing_is_refused(count, questions):
    with pytest.raises(kvsim.UsageError, match=f"count: expected 1 or more, .* found {count}"):
        list(few_shot(questions, 0, count=count))


@pytest.mark.parametrize("form", ["{question}", "{answer}{question}", "{question}{answer}.", "{q}"])
def test_a_template_that_does_not_ask_is_refused(form):
    with pytest.raises(kvsim.UsageError, match=r"template: expected a text with \{question\}"):
        Template(form)


def test_a_context_that_the_template_leaves_out_is_refused(questions):
    with pytest.raises(kvsim.UsageError, match="sums-3 has a context"):
        list(few_shot(questions, 0, template=Template("{question} {answer}")))


def test_choices_differ_in_the_choice_alone(questions):
    texts = list(few_shot(questions, 1, choices=True))
    assert len(texts) == 2 + 2 + 2 + 3
    of_last = [text for text in texts if text["name"].startswith("sums-4.1-shot.choice-")]
    assert len({text["text"][: text["prompt_length"]] for text in of_last}) == 1
    assert [labelled(text, "answer") for text in of_last] == [[], ["six"], []]
    assert [labelled(text, "choice") for text in of_last] == [["seven"], [], ["nine"]]
    with pytest.raises(kvsim.UsageError, match="choices: open has none to compare"):
        list(few_shot([Question("open", "why?", "so")], 0, choices=True))


def rows_of(texts, likelihoods, **fixed):
    """Rows as of `closed_loop`, of texts whose sums of log-probabilities are known."""
    fixed = dict(
        policy="h2o", budget_request="20%", budget=5, mode="prefill", loop="imposed", seed=0,
        steps=4,
    ) | fixed  # fmt: skip
    return pd.DataFrame(
        fixed | {"sequence": text["name"], "nll_full": -full / 3, "nll": -evicting / 3}
        for text, (full, evicting) in zip(texts, likelihoods, strict=True)
    )


def test_the_likeliest_choice_is_the_answer(questions):
    texts = list(few_shot(questions[:2], 0, choices=True))  # the first, then the second is right
    rows = rows_of(texts, [(-1, -9), (-2, -3), (-5, -5), (-4, -4)])
    (row,) = multiple_choice(rows, texts).to_dict("records")
    assert (row["questions"], row["accuracy_full"], row["accuracy"]) == (2, 1, 0.5)
    assert row["difference"] == -0.5 and row["low"] <= -0.5 <= row["high"]


def test_choices_of_several_lengths_are_compared_by_their_sum(questions):
    texts = list(few_shot(questions[:1], 0, choices=True))
    rows = rows_of(texts, [(-3, -3), (-4, -4)])
    rows.loc[1, ["steps", "nll", "nll_full"]] = [9, 0.5, 0.5]  # a better mean, the same sum
    (row,) = multiple_choice(rows, texts).to_dict("records")
    assert row["accuracy"] == 1 and np.isnan(row["low"])


def test_rows_that_cannot_be_compared_are_refused(questions):
    texts = list(few_shot(questions[:2], 0, choices=True))
    rows = rows_of(texts, [(-1, -1)] * 4)
    with pytest.raises(kvsim.DataError, match="expected rows of its 2 choices, found 1"):
        multiple_choice(rows[:3], texts)
    with pytest.raises(kvsim.DataError, match=r"h2o at 20%: .* 2 questions, found none of sum\.0"):
        multiple_choice(rows[:2], texts)
    rows["budget"] = [5, 6, 5, 5]
    with pytest.raises(kvsim.DataError, match="read with budgets of 5, 6 tokens; use mode prefill"):
        multiple_choice(rows, texts)
    assert len(multiple_choice(rows.assign(policy="full"), texts)) == 1  # keeps all in any case
    with pytest.raises(kvsim.DataError, match="a text per choice, found none"):
        multiple_choice(rows, few_shot(questions, 0))


@pytest.mark.parametrize("lacking", [np.nan, None])
def test_rows_without_likelihoods_are_named(lacking, questions):
    texts = list(few_shot(questions[:1], 0, choices=True))
    rows = rows_of(texts, [(-1, -1)] * 2).assign(nll=lacking)
    with pytest.raises(kvsim.DataError, match=r"choice-1 with h2o at 20%: expected nll_full and"):
        multiple_choice(rows, texts)


def test_rows_without_a_seed_count(questions):
    texts = list(few_shot(questions[:1], 0, choices=True))
    rows = rows_of(texts, [(-1, -1), (-2, -2)], seed=None)
    assert list(multiple_choice(rows, texts)["accuracy"]) == [1]


def test_the_bundled_model_answers_and_eviction_costs_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    count = sample_of(3, 5)
    made = ["few-shot", str(SAMPLE / "questions.jsonl"), "--template", FACTS, "--count", str(count)]
    assert main([*made, "--shots", "1", "-o", "one.jsonl"]) == 0
    assert main([*made, "--shots", "1", "--choices", "-o", "choices.jsonl"]) == 0
    assert f"kvsim: {4 * count} texts in choices.jsonl" in capsys.readouterr().err
    model = SAMPLE / "tiny-retriever"
    frame = kvsim.evaluate(model, Path("one.jsonl"), "full;window", ["20%"], progress=False)
    right = frame.groupby("policy").answers_right.sum()
    assert right["full"] >= count - 1 > right["window"]
    kvsim.evaluate(
        model, Path("choices.jsonl"), "full;window", ["20%"], mode="prefill",
        output="results.sqlite", progress=False,
    )  # fmt: skip
    assert main(["score", "results.sqlite", "--texts", "choices.jsonl", "--format", "json"]) == 0
    rows = {row["policy"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["full"]["accuracy"] == rows["window"]["accuracy_full"] >= 1 - 1 / count
    assert rows["window"]["accuracy"] < rows["full"]["accuracy"]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["few-shot", "none.jsonl", "-o", "t.jsonl"], 2, "none.jsonl: cannot read it"),
        (["few-shot", "q.jsonl", "-o", "t.jsonl", "--shots", "9"], 2, "expected at most 3"),
        (["few-shot", "q.jsonl", "-o", "t.jsonl", "--template", "x"], 2, "template: expected"),
        (["few-shot", "bad.jsonl", "-o", "t.jsonl"], 3, "bad.jsonl: expected JSON"),
        (["score", "r.sqlite", "--texts", "q.jsonl"], 3, "r.sqlite"),
    ],
)
def test_errors_are_one_line(arguments, status, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "q.jsonl")
    (tmp_path / "bad.jsonl").write_text("{")
    assert main(arguments) == status
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("kvsim: error: ") and message in line
    assert not (tmp_path / "t.jsonl").exists()
