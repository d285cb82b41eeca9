"""What answers are worth, their means, and the verbs that print them."""

import json
import sqlite3

import numpy as np
import pandas as pd
import pytest

import kvsim
import kvsim.tasks
from conftest import SAMPLE
from kvsim.closed_loop.prediction import interval_over_texts
from kvsim.tasks.__main__ import main
from kvsim.tasks.asking.asking import Generating
from kvsim.tasks.asking.scores import contains, exact, f1
from task_answers_test import line

RETRIEVER = str(SAMPLE.parent / "tiny-retriever")


def test_an_answer_is_compared_by_its_words():
    assert exact(" The Red door. ", "red door") == 1
    assert exact("red doors", "red door") == 0
    assert f1("red door", "the red barn") == 0.5
    assert f1("", "red") == 0 and f1("", "") == 1
    assert contains("It is 4711, or 12.", ["4711", "12", "47"]) == pytest.approx(2 / 3)
    assert contains("<47> it is", ["<47>"]) == 1
    assert contains("RED", ["red"]) == contains("4711kg", ["4711"]) == 1
    assert contains("colour", ["our"]) == 0


def test_a_line_ends_an_answer_of_one_line():
    assert Generating(8).stops_of(" 47\n") == ("\n",)
    assert Generating(8).stops_of("1 + 1 = 2\n2 + 1 = 3") == ()
    assert Generating(8, ("x",)).stops_of("y") == ("x",)


def rows(scores, **more):
    """Rows of task_answer; `scores`: of each task the scores of each policy, text by text."""
    found = []
    for task, policies in scores.items():
        for policy, values in policies.items():
            for number, value in enumerate(values):
                found.append(
                    {
                        "model_id": "m", "sequence": f"{task}-{number}", "turn": 1,
                        "policy": policy, "budget": 10, "mode": "prefill", "question": "unseen",
                        "seed": 0, "budget_request": "20%", "label": None, "task": task,
                        "length_request": None, "in_view": 0, "most_tokens": 0,
                        "answers": 4, "answers_right": 4 * value, "contains": np.nan,
                        "exact": np.nan, "f1": np.nan, "nll": 1.0,
                    } | more
                )  # fmt: skip
    return pd.DataFrame(found)


SCORES = {
    "easy": {"full": [1, 1, 0.5], "h2o": [1, 0, 0.5]},
    "hard": {"full": [0.5, 0.25], "h2o": [0, 0.25]},
}


def test_means_leave_out_what_the_full_cache_cannot_do():
    found = kvsim.tasks.scores(rows(SCORES)).set_index(["task", "policy"])
    assert found["is_within_reach"].to_dict() == {
        ("easy", "full"): True, ("easy", "h2o"): True,
        ("hard", "full"): False, ("hard", "h2o"): False,
        ("all within reach", "full"): True, ("all within reach", "h2o"): True,
    }  # fmt: skip
    easy = found.loc[("easy", "h2o")]
    assert easy.equals(found.loc[("all within reach", "h2o")])
    assert easy["score"] == 0.5 and easy["texts"] == 3
    assert (easy["low"], easy["high"]) == interval_over_texts(np.array([1, 0, 0.5]))
    assert easy["difference"] == pytest.approx(-1 / 3)
    ends = interval_over_texts(np.array([0, -1.0, 0]))
    assert (easy["difference_low"], easy["difference_high"]) == ends


def test_what_was_generated_counts_and_turns_are_averaged_first():
    both = pd.concat(
        [
            rows({"easy": {"full": [1], "h2o": [0]}}, contains=1.0),
            rows({"easy": {"full": [1], "h2o": [0]}}, contains=0.5, turn=2),
            rows({"easy": {"full": [1], "h2o": [1]}}, contains=0.0, sequence="other"),
        ]
    )
    found = kvsim.tasks.scores(both).set_index(["task", "policy"])
    assert found.loc[("easy", "h2o"), "score"] == (0.75 + 0) / 2
    assert found.loc[("easy", "h2o"), "texts"] == 2


def test_rows_without_the_full_cache_are_refused():
    with pytest.raises(kvsim.DataError, match="expected a row of the policy full"):
        kvsim.tasks.scores(rows({"easy": {"h2o": [1]}}))
    with pytest.raises(kvsim.DataError, match="expected rows of the table task_answer"):
        kvsim.tasks.scores(rows(SCORES)[:0])


def test_the_command_asks_and_prints_the_scores(tmp_path, capsys):
    texts, results = tmp_path / "facts.jsonl", tmp_path / "r.sqlite"
    texts.write_text("".join(json.dumps(line(0, number=i, name=f"f{i}")) + "\n" for i in (0, 1)))
    ask = ["evaluate", RETRIEVER, "--texts", str(texts), "--policies", "h2o;window"]
    ask += ["--budgets", "40%", "--generate", "3", "-o", str(results)]
    assert main(ask) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[0].split()[:3] == ["task", "question", "policy"]
    assert "all within reach" in printed and "less full" in printed
    assert main(["score", str(results)]) == 0
    assert capsys.readouterr().out == printed
    assert main(["score", str(results), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {each["texts"] for each in found} == {2}
    kept = kvsim.load(results)
    assert kept["run"].command.iloc[0].startswith("python -m kvsim.tasks ")
    with sqlite3.connect(results) as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    assert "task_answer" in tables and "closed_loop" not in tables


def test_bad_input_is_refused_in_one_line(tmp_path, capsys):
    texts = tmp_path / "texts.jsonl"
    ask = ["evaluate", RETRIEVER, "--texts", str(texts), "--policies", "h2o", "--budgets", "40%"]
    for content, status, message in (
        ("{", 3, "line 1: expected JSON"),
        ('{"spans": []}', 3, 'line 1: expected {"text"'),
        ("", 3, "expected texts, found an empty file"),
        (json.dumps({"text": "some words", "spans": []}), 3, "expected spans labelled turn"),
    ):
        texts.write_text(content)
        assert main(ask) == status
        error = capsys.readouterr().err.splitlines()
        assert message in error[-1]
    texts.write_text(json.dumps(line(0)))
    assert main([*ask[:-1], "x%"]) == 2
    empty = tmp_path / "empty.sqlite"
    sqlite3.connect(empty).close()
    assert main(["score", str(empty)]) == 3
