"""Long contexts with questions, whose answers are read from the text here by other means."""

import json
import math
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

import kvsim
from kvsim.closed_loop.texts import input_texts
from kvsim.tasks import ruler
from kvsim.tasks.__main__ import main
from kvsim.tasks.synthetic.ruler import TASKS, WITH_TURNS
from kvsim.tasks.synthetic.words import ADJECTIVES, NOUNS, VERBS

MODEL = Path(__file__).parents[2] / "traces/sample/tiny-retriever"
LENGTH = 320


def made(*arguments, **options):
    return list(ruler(*arguments, **{"samples": 2} | options))


def labelled(line, label):
    return [line["text"][start:end] for start, end, of in line["spans"] if of == label]


def values_of(line, turn):
    """The values that a line says to be the answer of a turn."""
    first, end = [span[:2] for span in line["spans"] if span[2] == "turn"][turn]
    inside = (s for s in line["spans"] if s[2] == "answer" and first <= s[0] and s[1] <= end)
    return [line["text"][a:b].strip() for a, b, _ in inside]


def context_of(line):
    return line["text"][: line["prompt_length"]]


def words_by_frequency(words):
    """Each word with how often it occurs, the most frequent ones first."""
    return Counter(words).most_common()


def needles_in(context):
    return re.findall(r"The magic number of (\S+) is (\d+)\.", context)


def read_numbers(context, question):
    keys = re.findall(r"[a-z]+-[a-z]+", question)
    return [value for key in keys for name, value in needles_in(context) if name == key]


def read_variables(context, question):
    value = re.search(r"\d{5}", question)[0]
    holding = []
    for name, source in re.findall(r"VAR (\w+) = (?:VAR )?(\w+)\.", context):
        if source == value or source in holding:
            holding.append(name)
    return holding


def read_common(context, question):
    entries = re.findall(r"\d+\. (\S+)", context)
    common = [word for word, _ in words_by_frequency(entries)[:10]]
    return sorted(common, key=entries.index)


def read_frequent(context, question):
    words = context.strip().splitlines()[-1].split()
    return [word for word, _ in words_by_frequency(words) if word != "..."][:3]


def read_pairs(context, question):
    pairs = json.loads(context[context.index("{") :])
    return [str(pairs[re.search(r'"(\w+)"', question)[1]])]


READ = dict.fromkeys(TASKS, read_numbers) | {
    "variable-tracking": read_variables,
    "common-words": read_common,
    "frequent-words": read_frequent,
    "key-value": read_pairs,
}
VALUES = dict.fromkeys(TASKS, 1) | {
    "niah-multivalue": 4,
    "niah-multiquery": 4,
    "variable-tracking": 5,
    "common-words": 10,
    "frequent-words": 3,
}


@pytest.mark.parametrize("task", TASKS)
def test_the_answers_follow_from_the_context(task):
    for line in made([LENGTH], [task], samples=5):
        (question,) = labelled(line, "question")
        read = READ[task](context_of(line), question)
        assert values_of(line, 0) == read and len(read) == VALUES[task]
        assert (line["task"], line["length"]) == (task, LENGTH)


@pytest.mark.parametrize("task", WITH_TURNS)
def test_each_turn_asks_for_another_value(task):
    for line in made([600], [task], turns=6):
        questions = labelled(line, "question")
        assert len({*questions}) == 6 and line["depth"] is None
        for turn, question in enumerate(questions):
            assert values_of(line, turn) == READ[task](context_of(line), question)
        found = {value for needle in labelled(line, "needle") for value in values_in(needle)}
        assert found == {values_of(line, turn)[0] for turn in range(6)}


def values_in(needle):
    return re.findall(r"\b\d{7}\b", needle)


@pytest.mark.parametrize("task", TASKS)
def test_spans_are_where_they_say(task):
    for line in made([LENGTH], [task], turns=3 if task in WITH_TURNS else 1):
        turns = [span for span in line["spans"] if span[2] == "turn"]
        assert turns[0][0] == line["prompt_length"] and turns[-1][1] == len(line["text"])
        assert all(one[1] == other[0] for one, other in pairwise(turns))
        assert context_of(line).endswith("\n\n")
        for text in labelled(line, "answer"):
            assert text[0] == " " and text[1:] == text.strip()
        for text, question in zip(labelled(line, "turn"), labelled(line, "question"), strict=True):
            asked = text[: text.index(question) + len(question)]
            assert asked.strip() == question and question.startswith("Question: ")
            assert text[len(asked) :].startswith("\nAnswer: ")
        for start, end, label in line["spans"]:
            if label in ("needle", "distractor"):
                assert end < line["prompt_length"]
                assert line["text"][start:end].startswith(("The magic", "VAR ", '"'))


def test_only_needles_that_are_asked_for_are_called_so():
    (line,) = made([LENGTH], ["niah-multikey"], samples=1)
    assert len(labelled(line, "distractor")) == 3 and len(needles_in(context_of(line))) == 4
    (needle,) = labelled(line, "needle")
    assert values_in(needle) == values_of(line, 0)


@pytest.mark.parametrize("task", TASKS)
def test_the_length_is_kept_and_nearly_reached(task):
    for length in (LENGTH, 1500):
        for line in made([length], [task]):
            # An item of frequent words may add one of several words.
            assert length - 16 < len(re.findall(r"\w+|[^\w\s]", line["text"])) <= length


@pytest.mark.parametrize("task", ["niah-single", "key-value"])
def test_a_tokenizer_counts_and_the_answers_are_tokens(task):
    pytest.importorskip("transformers")
    from kvsim.closed_loop.texts import jobs_of
    from kvsim.model.loading import load_tokenizer

    tokenizer = load_tokenizer(str(MODEL))
    lines = made([900], [task], tokenizer=tokenizer)
    assert lines == made([900], [task], tokenizer=str(MODEL))
    for job, line in zip(jobs_of(input_texts(lines), tokenizer, None, None), lines, strict=True):
        assert 900 - 30 < len(job.ids) <= 900
        assert (
            tokenizer.decode(job.ids[job.prompt_length :]) == line["text"][len(context_of(line)) :]
        )
        (answer,) = [span for span in job.spans if span.label == "answer"]
        assert "".join(job.token_text[answer.start : answer.end]) == f" {values_of(line, 0)[0]}"


def test_a_sample_depends_on_the_seed_and_itself_alone():
    everything = {line["name"]: line for line in made([LENGTH, 400], samples=3)}
    assert len(everything) == 2 * 3 * len(TASKS)
    for task in TASKS:
        for line in made([400], [task]):
            assert line == everything[line["name"]]
    first, second = made([400], ["key-value"])
    assert first["text"] != second["text"] != made([400], ["key-value"], seed=1)[1]["text"]


def test_the_needle_stands_at_the_depth():
    depths = [0, 0.25, 0.5, 0.75, 1]
    lines = made([LENGTH], ["niah-single"], samples=3, depths=depths)
    assert [line["depth"] for line in lines] == depths * 3
    assert len({line["name"] for line in lines}) == 15
    for line in lines:
        context, (needle,) = context_of(line).strip(), labelled(line, "needle")
        start = context.index("\n\n") + 2
        before = context.index(needle) - start
        hidden = len(context) - start - len(needle)
        longest = max(map(len, re.split(r"(?<=[.!?]) ", context)))
        assert abs(before - line["depth"] * hidden) <= longest / 2 + 1
    assert len({labelled(line, "needle")[0] for line in lines}) == 3  # each at all depths
    drawn = [line["depth"] for line in made([LENGTH], ["niah-single"], samples=9)]
    assert len({*drawn}) > 3 and all(0 <= depth <= 1 for depth in drawn)


def test_the_pair_that_is_asked_for_stands_at_its_depth():
    for line in made([LENGTH], ["key-value"], samples=5):
        pairs = json.loads(context_of(line)[context_of(line).index("{") :])
        place = [*map(str, pairs.values())].index(values_of(line, 0)[0])
        assert place == round(line["depth"] * (len(pairs) - 1))


@pytest.mark.parametrize(("length", "often", "seldom"), [(1500, 6, 1), (8192, 30, 3)])
def test_words_of_a_list_occur_as_often_as_in_the_paper(length, often, seldom):
    (line,) = made([length], ["common-words"], samples=1)
    entries = re.findall(r"\d+\. (\S+)", context_of(line))
    assert Counter(Counter(entries).values())[often] == 10
    assert {*Counter(entries).values()} == {often, seldom}
    assert len({*entries}) > 10 + (len(ADJECTIVES + NOUNS + VERBS) if length > 8000 else 100)


def test_frequent_words_follow_the_zeta_distribution():
    (line,) = made([1500], ["frequent-words"], samples=1)
    words = context_of(line).strip().splitlines()[-1].split()
    counts = [count for _, count in words_by_frequency(words)]
    expected = [
        [int(n * k**-2 * 6 / math.pi**2) for k in range(1, 31)]
        for n in range(len(words), 2 * len(words))
    ]
    assert words_by_frequency(words)[0][0] == "..." and counts[4] < counts[3]
    assert counts in [[count for count in each if count] for each in expected]


def test_the_frequencies_of_words_differ_in_the_shortest_contexts():
    task = ["frequent-words"]
    with pytest.raises(kvsim.UsageError, match=r"frequent-words: expected \d+ tokens") as raised:
        made(50, task)
    shortest = int(re.search(r"(\d+) tokens", str(raised.value))[1])
    for line in made(range(shortest, shortest + 60), task, samples=1):
        words = context_of(line).strip().splitlines()[-1].split()
        counts = [count for _, count in words_by_frequency(words)][:5]
        assert len({*counts}) == len(counts) >= 4


def test_the_command_writes_lines_that_are_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    asked = ["ruler", "--length", "320,400", "--tasks", "niah-single,key-value", "--samples", "1"]
    assert main([*asked, "--depths", "0,1", "--seed", "2", "-o", "texts.jsonl"]) == 0
    assert capsys.readouterr().err == "kvsim: 6 texts in texts.jsonl\n"
    assert main([*asked, "--depths", "0,1", "--seed", "2"]) == 0
    assert capsys.readouterr().out == Path("texts.jsonl").read_text("utf-8")
    lines = [json.loads(line) for line in Path("texts.jsonl").read_text("utf-8").splitlines()]
    assert lines == made([320, 400], ["niah-single", "key-value"], samples=1, depths=[0, 1], seed=2)
    read = input_texts(Path("texts.jsonl"))
    assert [each.name for each in read] == [line["name"] for line in lines]
    assert [each.prompt_length for each in read] == [line["prompt_length"] for line in lines]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--tasks qa", "tasks: expected some of niah-single, "),
        ("--tasks key-value,key-value", "tasks: expected different ones, found key-value twice"),
        ("--length 20", "length: niah-single: expected 45 tokens or more, found 20"),
        ("--length 0", "expected a whole number from 1 on, found 0"),
        ("--length 400,400", "lengths: expected different ones, found 400 twice"),
        ("--samples 0", "expected a whole number from 1 on, found 0"),
        ("--depths 0,2", "expected numbers from 0 to 1, found 0,2"),
        ("--tasks key-value --depths 0", "depths: expected niah-single among the tasks"),
        ("--tasks niah-single --turns 2", "turns: expected 1 for niah-single, found 2"),
        ("--haystack none.txt", "haystack: none.txt: cannot be read"),
        ("--haystack empty.txt", "haystack: expected a text with words, found none"),
    ],
)
def test_bad_input_is_one_line(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("\n")
    try:
        status = main(["ruler", *arguments.split(), "-o", "texts.jsonl"])
    except SystemExit as error:
        status = error.code
    assert status == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("kvsim: error: ") and message in line
    assert not (tmp_path / "texts.jsonl").exists()
