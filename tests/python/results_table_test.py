"""The table of results: what is submitted is valid, and the pages are those of the submissions."""

import re
import sqlite3
import sys
from contextlib import closing

import pandas as pd
import pytest

import kvsim
from conftest import H2O, HERE
from kvsim import _engine
from kvsim.closed_loop.prediction import interval_over_texts

ROOT = HERE.parents[1]
FOLDER = ROOT / "notebooks/results"
sys.path.insert(0, str(FOLDER))

import from_study  # noqa: E402
from results_table import check, codes, submission, summary  # noqa: E402
from results_table import command as build  # noqa: E402
from results_table.trim import NOT_PUBLISHED, without_folders  # noqa: E402

VERSION = "0.1.0+g1a2b3c4"
TEXTS = ["a", "b", "c", "d", "e"]
POLICIES = [H2O, "window", "own"]
KEY = ["model_id", "sequence", "policy", "budget", "mode", "loop", "seed"]
KL = {H2O: 0.5, "window": 1.5, "own": 0.1}


def row(policy, text, budget=10, **values):
    place = TEXTS.index(text)
    known = {"h2o", "window"} & {policy.partition(":")[0]}
    code = _engine.specs(policy, "uniform")[0]["policy_code"] if known else "0123456789abcdef"
    return {
        "model_id": "m" * 64, "sequence": text, "policy": policy, "budget": budget,
        "mode": "stream", "loop": "adaptive", "seed": 0, "text_id": text * 64, "model": "<small>",
        "budget_request": f"{budget}%", "steps": 100, "kl_mean": KL[policy] + 0.01 * place**2,
        "answers": 2, "answers_right_full": 2, "answers_right": place % 3, "peak_tokens": budget,
        "cache_bytes": 1000 * budget, "prompt_length": 0, "device": "cpu",
        "kvsim_version": VERSION, "policy_code": code, **values,
    }  # fmt: skip


@pytest.fixture
def measured(tmp_path):
    """A result file as kvsim.evaluate leaves it."""
    path = tmp_path / "results.sqlite"
    file = _engine.ClosedLoopFile(str(path))
    file.begin_run("python -m kvsim.evaluate /home/me/model.gguf --trace=/tmp/t.h5", "cpu", 2)
    budgets = (5, 10, 20)
    rows = [row(policy, text, b) for policy in POLICIES for text in TEXTS for b in budgets]
    kinds = [{name: each[name] for name in KEY} | {"kind": "text", "tokens": 5} for each in rows]
    file.add(rows, kinds)
    file.finish_run()
    file.close()
    return path


def trimmed(source, name="mine.sqlite", *options):
    output = source.with_name(name)
    status = build.main([
        "--trim", str(source), "-o", str(output), "--by", "me", "--texts", "https://a.b/c", *options
    ])  # fmt: skip
    return output, status


def changed(path, *statements):
    """Another program changes the file, and gives its rows digests."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)
    submission.digest_again(path)


def test_what_is_submitted_is_valid_and_the_pages_are_up_to_date(capsys):
    assert build.main(["--stale"]) == 0, capsys.readouterr().err
    kept = [path for path in FOLDER.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert sum(path.stat().st_size for path in kept) < 1_500_000
    written = [FOLDER / "table.md", FOLDER / "index.html", *build.SUBMISSIONS.iterdir()]
    assert [path for path in written if b"/home/" in path.read_bytes()] == []


def test_the_study_is_there_with_the_numbers_of_its_tables():
    whole = pd.concat(
        submission.read(path).measured["closed_loop"] for path in build.SUBMISSIONS.iterdir()
    )
    key = ["sequence", "loop", "policy", "budget"]
    tables = pd.read_csv(from_study.LOOPS).set_index(key).sort_index()
    found = whole.set_index(key).loc[tables.index]
    assert len(whole) == len(tables) == 12 * 4 * (20 + 29)
    for name in ("kl_mean", "delta_nll", "top1_agreement", "kept_overlap"):
        pd.testing.assert_series_equal(found[name], tables[name], rtol=1e-4)
    of_file = submission.read(from_study.OUTPUT).measured["closed_loop"].set_index(key)
    rows = from_study.rows().set_index(key).loc[of_file.index]
    for name in ("kl_mean", "text_id", "budget_request", "steps"):
        assert list(of_file[name]) == list(rows[name])
    assert list(of_file["cache_bytes"].fillna(0)) == list(rows["cache_bytes"].fillna(0))
    # What was looked up agrees with the rows that were measured.
    both = submission.read(from_study.MEASURED).measured["closed_loop"]
    assert (both.cache_bytes == both.budget * from_study.BYTES_PER_TOKEN).all()


def test_trim_keeps_the_rows_and_their_runs_and_no_places(measured, capsys):
    before = measured.read_bytes()
    output, status = trimmed(measured, "mine.sqlite", "--where", "budget > 5", "--note", "hello")
    assert (status, capsys.readouterr().err) == (0, "")
    assert measured.read_bytes() == before
    assert set(kvsim.check(output).verdict) == {"agrees"}
    whole = kvsim.load(measured)
    expected = whole.closed_loop[whole.closed_loop.budget > 5].reset_index(drop=True)
    found = submission.read(output)
    pd.testing.assert_frame_equal(found.measured["closed_loop"], expected)
    assert found.about["note"] == "hello" and found.about["submitted_by"] == "me"
    assert list(found.runs.run_id) == list(whole.run.run_id)
    assert list(found.runs.host) == [NOT_PUBLISHED]
    assert list(found.runs.command) == ["python -m kvsim.evaluate model.gguf --trace=t.h5"]
    assert found.others == {}
    codes_of = dict(zip(found.policies.policy, found.policies.code))
    assert codes_of == {H2O: "built-in", "window": "built-in", "own": "own code"}


def test_commands_lose_the_folders_of_absolute_paths_alone():
    command = "run '/a b/c.gguf' org/model --x=/d/e ~/f/g 'h2o;schedule:file=/p/q.h5' https://h.i/j"
    kept = "run c.gguf org/model --x=e g 'h2o;schedule:file=q.h5' https://h.i/j"
    assert without_folders(command) == kept
    assert without_folders("it's --x=/a/b /c/d") == "it's --x=b d"  # no line of a shell
    assert without_folders("kvsim.f('/a/b', x=['/c/d'])") == "kvsim.f('b', x=['d'])"


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE closed_loop SET kvsim_version = '0.1.0+g1a2b3c4.dirty'", "clean source revision"),
        ("UPDATE closed_loop SET policy_code = NULL WHERE policy = 'own'", "column policy_code:"),
        ("UPDATE closed_loop SET text_id = NULL", "text_id: expected a value in every row"),
        ("UPDATE closed_loop SET text_id = 'other' WHERE budget = 5", "expected one text_id"),
        ("DELETE FROM closed_loop WHERE sequence = 'a'", "expected 5 texts or more"),
        ("DELETE FROM closed_loop WHERE sequence = 'a' AND policy = 'own'", "the 5 texts of all"),
        ("UPDATE closed_loop SET seed = 1 WHERE sequence = 'a'", "the same seeds for every text"),
        ("UPDATE closed_loop SET run_id = 'x'", "expected run x in the table run"),
        ("UPDATE submission SET submitted = 'today'", "expected a date"),
        ("UPDATE submission SET texts = ' '", "texts: expected where the texts are published"),
        ("UPDATE submission SET name = 'other'", "name: expected 'mine', found 'other'"),
        ("UPDATE submission SET exception = 'why'", "exception: expected none"),
        ("UPDATE submission_policy SET code = 'built-in'", "policy own: expected policy_code 012"),
        ("DELETE FROM submission_policy WHERE policy = 'own'", "a row in submission_policy"),
        ("DELETE FROM closed_loop", "expected rows in closed_loop or task_answer"),
        ("INSERT INTO closed_loop_kind SELECT model_id, sequence, policy, budget, mode, loop, seed,"
         " 'text', 5, 1, 1, 0, 1, 1, 0, 0, policy_code, run_id FROM closed_loop LIMIT 1",
         "table closed_loop_kind: expected no rows, found 1"),
    ],
)  # fmt: skip
def test_what_is_not_valid_is_said_in_a_line(measured, capsys, statement, words):
    output, _ = trimmed(measured)
    assert check.faults(output) == []
    changed(output, statement)
    assert build.main(["--check", str(output)]) == 3
    lines = capsys.readouterr().err.splitlines()
    assert any(words in line for line in lines)
    assert all(line.startswith(f"kvsim: error: {output}: ") and ";" in line for line in lines)


def test_rows_that_are_not_those_of_their_digests_are_found(measured):
    output, _ = trimmed(measured)
    with closing(sqlite3.connect(output)) as connection, connection:
        connection.execute("UPDATE closed_loop SET kl_mean = 0 WHERE policy = 'own'")
    (line,) = check.faults(output)
    assert "digest" in line
    assert "expected" in check.faults(FOLDER / "README.md")[0]


def test_a_missing_value_needs_a_reason_which_the_page_shows(measured):
    source = measured
    changed(source, "UPDATE closed_loop SET policy_code = NULL, kvsim_version = NULL")
    assert trimmed(source)[1] == 3
    output, status = trimmed(source, "old.sqlite", "--exception", "from before 2020")
    assert status == 0
    output.with_name("mine.sqlite").unlink()
    source.unlink()
    page = build.pages(output.parent)["index.html"]
    assert "from before 2020" in page and ">old</a> ‡<" in page and "code unknown" in page


def test_the_page_has_means_intervals_and_paired_differences(measured):
    output, _ = trimmed(measured)
    rows = summary.kl_rows([submission.read(output)])
    assert [each.budget for each in rows[::3]] == ["5%", "10%", "20%"]
    mine, h2o, window = rows[:3]
    values = pd.Series([KL["own"] + 0.01 * place**2 for place in range(5)])
    assert (mine.name, h2o.name, window.name) == ("own", "h2o", "window")
    expected = (values.mean(), *interval_over_texts(values.to_numpy()))
    found = (mine.measure.mean, mine.measure.low, mine.measure.high)
    assert found == pytest.approx(expected, rel=1e-8)
    assert (mine.difference.mean, mine.difference.low) == (-0.4, -0.4)
    assert (mine.verdict, h2o.verdict, window.verdict) == ("better", "", "worse")
    assert h2o.is_reference and (mine.answers, mine.answers_right) == (10, 4)
    assert (mine.cache_bytes, mine.bytes_per_token) == (5000, 50)


def test_the_pages_are_the_same_again_and_need_nothing_else(measured):
    output, _ = trimmed(measured)
    measured.unlink()
    found = build.pages(output.parent)
    assert found == build.pages(output.parent)
    page = found["index.html"]
    assert "&lt;small&gt;" in page and "<small>0.1" in page
    assert not re.search(r"<(script|img|link|iframe)[^>]*(src|href)=", page)
    assert page.count("<tr data-model=") == 9 and "own code" in page
    assert "| own |" in found["table.md"] and "\\<small\\>" in found["table.md"]
    lines = build.stale(found, output.parent)
    assert len(lines) == 2 and "run build.py" in lines[0]
    (output.parent / "index.html").write_text(page)
    assert len(build.stale(found, output.parent)) == 1


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        (["--by", "me"], 2, "--trim: expected --output"),
        (["-o", "{}/a.sqlite", "--by", "me", "--texts", "t", "--where", "nothing"], 2, "--where"),
        (["-o", "{}/a.db", "--by", "me", "--texts", "t"], 2, "ends in .sqlite"),
        (["-o", "{}/results.sqlite", "--by", "me", "--texts", "t"], 2, "the file exists"),
        (["-o", "{}/a.sqlite", "--by", "me", "--texts", "t", "--where", "0"], 3, "expected rows"),
    ],
)
def test_trim_refuses_in_one_line(measured, capsys, options, status, words):
    options = [option.format(measured.parent) for option in options]
    assert build.main(["--trim", str(measured), *options]) == status
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line and sorted(measured.parent.iterdir()) == [measured]


def test_codes_are_those_that_the_engine_has_of_the_same_sources():
    found = codes.of_sources(ROOT)
    for name in ("h2o", "random+protect", "kcenter", "full"):
        expected = _engine.specs(name, "uniform")[0]["policy_code"]
        assert codes.code_of(name, found) == expected
    assert codes.code_of("optimal", found) is None
    assert codes.whose("window", "0" * 16, _engine.version()) == codes.OWN
    assert codes.whose("window", "0" * 16, "0.0.1") == codes.NOT_COMPARED
    assert codes.whose("nobodys", "0" * 16, "0.0.1") == codes.OWN
    assert codes.whose("window", "", VERSION) == codes.UNKNOWN
    of_this = _engine.specs("window", "uniform")[0]["policy_code"]
    assert codes.whose("window", of_this, VERSION) == codes.BUILT_IN
