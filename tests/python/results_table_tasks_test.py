"""The table of results where a submission has answers to tasks."""

import sqlite3
import sys
from contextlib import closing

import pytest

from conftest import H2O, HERE
from kvsim import _engine
from task_rows import table

sys.path.insert(0, str(HERE.parents[1] / "notebooks/results"))

from results_table import check, submission, summary
from results_table.command import main, pages

TEXTS = "abcde"


def row(task, policy, text, turn, right, contains):
    full = policy == "full"
    return {
        "model_id": "m" * 64, "sequence": task + text, "turn": turn, "policy": policy,
        "budget": 100 if full else 20, "mode": "prefill", "question": "unseen",
        "most_tokens": 0, "seed": 0,
        "text_id": task + text * 60, "model": "tiny", "budget_request": "full" if full else "20%",
        "task": task, "length": 100, "length_request": 128, "in_view": 0, "answers": 4,
        "answers_right": right, "nll": 1.0, "contains": contains, "peak_tokens": 20,
        "cache_bytes": 2000, "device": "cpu", "kvsim_version": "0.1.0", "run_id": "r",
        "policy_code": _engine.specs(policy, "uniform")[0]["policy_code"],
    }  # fmt: skip


def rows():
    for text in TEXTS:
        place = TEXTS.index(text)
        for turn in (1, 2):  # the mean over turns is the text's
            yield row("needle", "full", text, turn, 0, 1.0)
            yield row("needle", H2O, text, turn, 0, 0.5 if turn == 1 else 0.7)
            yield row("needle", "window", text, turn, 0, 0.02 * place)
        # Nothing was generated: the share of values whose tokens are right counts.
        yield row("hard", "full", text, 1, 2, None)
        yield row("hard", "window", text, 1, 1, None)


@pytest.fixture
def measured(tmp_path):
    path = tmp_path / "results.sqlite"
    file = _engine.ClosedLoopFile(str(path))
    run = file.begin_run("python -m kvsim.tasks evaluate", "cpu", 1)
    file.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(table())
        for values in rows():
            values["run_id"] = run
            marks = ", ".join("?" * len(values))
            connection.execute(
                f"INSERT INTO task_answer ({', '.join(values)}) VALUES ({marks})",
                list(values.values()),
            )
    submission.digest_again(path)
    return path


@pytest.fixture
def submitted(measured):
    output = measured.with_name("tasks.sqlite")
    options = ["--trim", str(measured), "-o", str(output), "--by", "me", "--texts", "here"]
    assert main(options) == 0
    measured.unlink()
    return output


def test_scores_are_means_over_texts_of_what_was_generated_or_is_most_likely(submitted):
    found = {
        (each.task, each.name): each for each in summary.task_rows([submission.read(submitted)])
    }
    assert len(found) == 5
    h2o, window = found["needle", "h2o"], found["needle", "window"]
    assert (h2o.measure.mean, window.measure.mean, h2o.of_full) == pytest.approx((0.6, 0.04, 1))
    assert window.difference.mean == pytest.approx(-0.56)
    assert (window.verdict, h2o.verdict, h2o.is_reference) == ("worse", "", True)
    assert window.texts == 5 and window.bytes_per_token == 20 and window.length == "128"
    hard = found["hard", "window"]
    assert (hard.measure.mean, hard.of_full, hard.verdict) == (0.25, 0.5, "")
    assert window.in_reach and not hard.in_reach


def test_the_pages_show_tasks_and_what_is_below_the_models_reach(submitted):
    page, table = pages(submitted.parent).values()
    assert page.count("<tr data-model=") == 5 and "Divergence" not in page
    assert (
        page.count("<small>below the model&#39;s reach")
        + page.count("<small>below the model's reach")
        == 2
    )
    assert "<option>needle</option>" in page and 'data-task="hard"' in page
    assert "## tiny, needle, 128 tokens, unseen, prefill: score, more is better\n" in table
    assert table.count("below the model's reach") == 1


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("DELETE FROM task_answer WHERE policy = 'full' AND sequence = 'harda'", "none for 1"),
        ("UPDATE task_answer SET task = NULL", "task_answer: task: expected a value"),
        ("DELETE FROM task_answer WHERE task = 'needle' AND sequence = 'needlea' "
         "AND policy = 'window'", "policy window: expected the 5 texts"),
    ],
)  # fmt: skip
def test_what_is_not_valid_is_said_in_a_line(submitted, statement, words):
    assert check.faults(submitted) == []
    with closing(sqlite3.connect(submitted)) as connection, connection:
        connection.execute(statement)
    submission.digest_again(submitted)
    (line,) = check.faults(submitted)
    assert words in line
