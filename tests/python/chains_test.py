"""Long solutions: their steps are worked out again, and they are as long as was asked."""

import json
import re
from itertools import accumulate, pairwise
from pathlib import Path

import pytest

import kvsim
from kvsim.closed_loop.texts import input_texts
from kvsim.tasks import chains
from kvsim.tasks.__main__ import main


def made(*arguments, **options):
    return list(chains(*arguments, **{"samples": 2} | options))


def labelled(line, label):
    return [line["text"][start:end] for start, end, of in line["spans"] if of == label]


def solution_of(line):
    return line["text"][line["prompt_length"] :]


def tokens_in(text):
    return len(re.findall(r"\w+|[^\w\s]", text))


def check_addition(task, steps, answer):
    numbers = [int(number) for number in re.findall(r"\d+", task)]
    sums = [*accumulate(numbers, initial=0)]
    expected = [f"{a} + {n} = {b}" for (a, b), n in zip(pairwise(sums), numbers, strict=True)]
    assert steps == expected and int(answer) == sum(numbers)


def check_variables(task, steps, answer):
    pairs = re.findall(r"(\S+) = (\S+?)[;.]", task)
    variables, name = dict(pairs), re.search(r"Find (\S+)\.$", task)[1]
    expected = []
    while name in variables:
        expected.append(f"{name} = {variables[name]}")
        name = variables[name]
    assert steps == expected and answer.strip() == name and name.isdigit()
    assert len(variables) == len(pairs) > len(steps)


CHECK = {"addition": check_addition, "variables": check_variables}


@pytest.mark.parametrize("kind", CHECK)
def test_steps_follow_from_the_task_and_lead_to_the_answer(kind):
    for line in made([kind], tokens=300, samples=4):
        (task,), (answer,) = labelled(line, "question"), labelled(line, "answer")
        CHECK[kind](task, labelled(line, "step"), answer)
        assert line["task"] == f"chain-{kind}" and line["length"] == 300


@pytest.mark.parametrize("kind", CHECK)
def test_the_example_is_solved_in_the_same_form(kind):
    (line,) = made([kind], steps=3, samples=1)
    task, before, *steps, last = line["text"].split("\n\n")[1].splitlines()
    assert before == "Steps:"
    CHECK[kind](task, steps, last.split()[-1])
    assert solution_of(line).splitlines()[-1].split()[:-1] == last.split()[:-1]


def test_variables_are_listed_in_another_order_and_other_numbers_among_them():
    (line,) = made(["variables"], steps=500, samples=1)  # more than there are single words
    (task,) = labelled(line, "question")
    listed = re.findall(r"(\S+) = ", task)
    worked_out = [step.split(" = ")[0] for step in labelled(line, "step")]
    assert listed != worked_out and [*filter({*worked_out}.__contains__, listed)] != worked_out
    assert len(listed) == len({*listed}) == 500 + 9 and {*worked_out} < {*listed}
    assert len({*re.findall(r"= (\d+)", task)}) == 10


@pytest.mark.parametrize("kind", CHECK)
def test_spans_are_where_they_say(kind):
    (line,) = made([kind], steps=5, samples=1)
    (turn,) = [span for span in line["spans"] if span[2] == "turn"]
    assert turn[:2] == [line["prompt_length"], len(line["text"])]
    (task,), steps, (answer,) = (labelled(line, of) for of in ("question", "step", "answer"))
    assert line["text"][: line["prompt_length"]].endswith(f"\n\n{task}\nSteps:\n")
    assert solution_of(line).splitlines()[:-1] == steps and len(steps) == 5
    assert solution_of(line).endswith(answer) and answer[0] == " "
    assert solution_of(line).startswith(steps[0]) and line["length"] is None


@pytest.mark.parametrize("kind", CHECK)
@pytest.mark.parametrize("tokens", [100, 2000])
def test_the_length_is_kept_and_nearly_reached(kind, tokens):
    for line in made([kind], tokens=tokens):
        assert tokens - 12 < tokens_in(solution_of(line)) <= tokens


def test_a_sample_depends_on_the_seed_and_itself_alone():
    everything = {line["name"]: line for line in made(samples=3)}
    assert len(everything) == 6
    for line in made(["variables"]):
        assert line == everything[line["name"]]
        assert tokens_in(solution_of(line)) > 450  # of 500
    shorter, longer = made(["addition"], steps=5)[1], made(["addition"], steps=9)[1]
    assert solution_of(longer).splitlines()[:5] == solution_of(shorter).splitlines()[:5]
    assert longer["text"] != made(["addition"], steps=9, seed=1)[1]["text"]


def test_the_command_writes_lines_that_are_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    asked = ["chains", "--kinds", "addition", "--tokens", "90", "--samples", "2", "--seed", "3"]
    assert main([*asked, "-o", "texts.jsonl"]) == 0
    assert capsys.readouterr().err == "kvsim: 2 texts in texts.jsonl\n"
    lines = [json.loads(line) for line in Path("texts.jsonl").read_text("utf-8").splitlines()]
    assert lines == made(["addition"], tokens=90, seed=3)
    assert [each.name for each in input_texts(Path("texts.jsonl"))] == [
        line["name"] for line in lines
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--kinds product", "kinds: expected some of addition, variables, found product"),
        ("--kinds addition,addition", "kinds: expected different ones, found addition twice"),
        ("--tokens 9", "tokens: addition: expected"),
        ("--steps 1", "steps: expected 2 or more, found 1"),
        ("--steps 3 --tokens 90", "not allowed with argument"),
    ],
)
def test_bad_input_is_one_line(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    try:
        status = main(["chains", *arguments.split(), "-o", "texts.jsonl"])
    except SystemExit as error:
        status = error.code
    assert status == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("kvsim: error: ") and message in line
    assert not (tmp_path / "texts.jsonl").exists()


def test_both_sizes_are_refused():
    with pytest.raises(kvsim.UsageError, match="tokens, steps: expected one of the two"):
        made(steps=3, tokens=90)
