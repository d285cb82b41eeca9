"""python -m kvsim.evaluate."""

import csv
import importlib
import io
import json
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import kvsim
from kvsim.closed_loop.cli import main
from kvsim.closed_loop.rows import Rows
from kvsim.closed_loop.summary import printed, summary
from record_zoo import build, letters

LINES = [
    {"text": "the words to read, and more.", "spans": [[4, 9, "answer"]], "name": "one"},
    {"text": "other words to read, and so on", "spans": [[0, 5, "answer"]]},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model with its tokenizer, and texts."""
    path = tmp_path_factory.mktemp("models") / "zoo"
    build("llama").save_pretrained(path)
    letters().save_pretrained(path)
    return path


@pytest.fixture
def texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.jsonl").write_text("\n".join(map(json.dumps, LINES)))
    (tmp_path / "story.txt").write_text(LINES[0]["text"])
    return tmp_path


def run(capsys, *arguments, status=0):
    assert main([str(argument) for argument in arguments]) == status
    return capsys.readouterr()


def test_texts_are_read_scored_and_kept(folder, texts, capsys):
    said = run(
        capsys, folder, "--texts", "texts.jsonl", "--policies", "window;labelled=tova",
        "--policies", "h2o", "--budgets", "20%,40%", "-o", "results.sqlite",
    )  # fmt: skip
    frame = kvsim.load("results.sqlite").closed_loop
    assert len(frame) == 2 * 3 * 2 and "one" in set(frame.sequence)
    lines = said.out.splitlines()
    assert lines[0].split()[:3] == ["policy", "budget", "KL"]
    assert [line.split()[0].partition(":")[0] for line in lines[1:7]] == [
        "window", "window", "labelled", "labelled", "h2o", "h2o",
    ]  # fmt: skip
    kl = frame[(frame.policy == "window") & (frame.budget_request == "20%")].kl_mean.mean()
    assert f"{kl:.4f}" in lines[1] and lines[1].endswith("6")
    assert "means over 2 texts" in lines[-1] and "fewer than five texts" in lines[-1]
    assert "kvsim: 12 of 12 rows" in said.err
    command = kvsim.load("results.sqlite").run.command
    assert any(each.startswith("python -m kvsim.evaluate ") for each in command)
    again = run(
        capsys, folder, "--texts", "texts.jsonl", "--policies", "window", "--budgets", "20%",
        "-o", "results.sqlite", "--format", "json",
    )  # fmt: skip
    (row,) = json.loads(again.out)
    assert row["policy"] == "window" and row["texts"] == 2 and row["answers"] == 2
    assert row["kl_mean"] == pytest.approx(kl, rel=1e-9) and row["kl_mean_difference"] is None


def test_selectors_come_after_policies_in_the_order_in_which_they_are_named(folder, texts, capsys):
    said = run(
        capsys, folder, "--text", "story.txt", "--select", "topk:k=8;quest:k=8,page=4",
        "--policies", "window", "--budgets", "8", "-o", "selected.sqlite", "--per-step",
    )  # fmt: skip
    names = [line.split()[0].partition(":")[0] for line in said.out.splitlines()[1:4]]
    assert names == ["window", "topk", "quest"] and "differences to window" in said.out
    steps = kvsim.closed_loop_steps("selected.sqlite")
    assert steps.groupby("policy").step.nunique().to_list() == [28] * 3


def test_a_file_is_one_text_named_after_it(folder, texts, capsys):
    said = run(
        capsys, folder, "--text", "story.txt", "--policies", "window;tova", "--budgets", "6",
        "--mode", "prefill", "--prompt-length", "9", "--eviction-interval", "2", "--format", "csv",
        "-o", "r.sqlite", "--model-dtype", "float32", "--seed", "3", "--per-step",
    )  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(said.out)))
    assert [row["policy"] for row in rows] == ["window", "tova:scope=head,score=cached"]
    frame = kvsim.load("r.sqlite").closed_loop
    assert set(frame.sequence) == {"story"} and set(frame["mode"]) == {"prefill:interval=2"}
    assert set(frame.steps) == {28 - 9} and set(frame.seed) == {3}
    steps = kvsim.closed_loop_steps("r.sqlite")
    assert steps.groupby("policy").step.agg(["min", "max"]).values.tolist() == [[9, 27]] * 2


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--text", "story.txt"], 2, "one policy and one budget, or a selector"),
        (["--policies", "window", "--budgets", "6"], 2, "--text --texts is required"),
        (["--text", "story.txt", "--policies", "windo", "--budgets", "6"], 2, "mean 'window'"),
        (["--text", "story.txt", "--policies", "subgen", "--budgets", "6"], 2, "loop=imposed"),
        (["--text", "none.txt", "--policies", "window", "--budgets", "6"], 3, "none.txt: cannot"),
        (["--texts", "bad.jsonl", "--policies", "window", "--budgets", "6"], 3, "expected JSON"),
        (["--text", "story.txt", "--policies", "window", "--budgets", "6", "--trace", "bad.jsonl"],
            3, "bad.jsonl"),
        (["--text", "story.txt", "--policies", "window", "--budgets", "6", "--device", "tpu9"], 2,
            "--device"),
        (["--text", "story.txt", "--policies", "window", "--budgets", "6", "-o", "bad.jsonl"], 3,
            "bad.jsonl: expected a result file"),
        (["--text", "story.txt", "--policies", "window", "--budgets", "6", "--per-step"], 2,
            "--per-step: expected --output, the result file that keeps the steps"),
    ],
)  # fmt: skip
def test_errors_have_one_line_and_a_status(arguments, status, message, folder, texts, capsys):
    Path("bad.jsonl").write_text("{ no JSON, and neither a trace nor a file of results, but long")
    try:
        assert main([str(folder), *arguments]) == status
    except SystemExit as exit_:
        assert exit_.code == status
    lines = capsys.readouterr().err.strip().splitlines()
    errors = [line for line in lines if line.startswith("kvsim: error: ")]
    assert len(errors) == 1 and lines[-1] == errors[0], lines
    assert message in errors[0]


def test_warnings_are_lines_too(folder, texts, capsys):
    said = run(capsys, folder, "--text", "story.txt", "--policies", "all", "--budgets", "6")
    assert "kvsim: warning: all leaves out what loop=imposed does not run: subgen" in said.err
    assert "Warning:" not in said.err


def test_the_command_runs_as_a_module_and_leaves_the_function_alone(folder, texts):
    command = [sys.executable, "-m", "kvsim.evaluate", "--help"]
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    assert "usage: python -m kvsim.evaluate" in found.stdout and not found.stderr
    with pytest.raises(ImportError, match="is a function; the command is"):
        importlib.import_module("kvsim.evaluate")
    assert callable(kvsim.evaluate) and "evaluate" in dir(kvsim)


def rows(values):
    """Rows of the table: {(policy, text): kl_mean} at one budget."""
    shared = dict(
        label=None, budget_request="10%", delta_nll=0.5, top1_agreement=0.75, kept_overlap=1.0,
        answers=2, answers_right_full=2, answers_right=1, peak_tokens=7, cache_bytes=10,
    )  # fmt: skip
    return pd.DataFrame([
        {"policy": policy, "sequence": text, "kl_mean": value, **shared}
        for (policy, text), value in values.items()
    ])  # fmt: skip


def test_differences_are_paired_over_texts_with_their_intervals():
    random = np.random.default_rng(0)
    names = [f"text-{i}" for i in range(8)]
    base, gap = random.uniform(1, 3, 8), random.uniform(0.1, 0.2, 8)
    values = {("a", name): value for name, value in zip(names, base)}
    values |= {("b", name): value for name, value in zip(names, base + gap)}
    found = summary(rows(values)).set_index("policy")
    assert found.kl_mean.to_dict() == pytest.approx({"a": base.mean(), "b": (base + gap).mean()})
    row = found.loc["b"]
    assert row.kl_mean_difference == pytest.approx(gap.mean())
    assert gap.min() < row.kl_mean_low < gap.mean() < row.kl_mean_high < gap.max()
    assert (row.answers, row.answers_right, row.texts) == (16, 8, 8)
    assert np.isnan(found.loc["a"].kl_mean_difference)
    text = printed(summary(rows(values)), "table")
    assert f"{gap.mean():+.4f} [{row.kl_mean_low:+.4f}, {row.kl_mean_high:+.4f}]" in text
    assert "8 of 16" in text and "with 95% intervals over texts" in text
    assert "fewer than five" not in text


def test_one_text_has_no_interval():
    found = summary(rows({("a", "x"): 1.0, ("b", "x"): 1.5}))
    assert found.kl_mean_difference[1] == 0.5 and np.isnan(found.kl_mean_low[1])
    text = printed(found, "table")
    assert "+0.5000\n" not in text and "+0.5000 " in text and "intervals over" not in text


def test_the_end_of_a_jobs_time_keeps_the_finished_rows(folder, texts):
    letters_of = [f"{'abcdefghij'[i // 10]}{'klmnopqrst'[i % 10]}" for i in range(100)]
    lines = [{"text": f"{each} {LINES[0]['text'] * 8}", "name": each} for each in letters_of]
    (texts / "many.jsonl").write_text("\n".join(map(json.dumps, lines)))
    child = subprocess.Popen(
        [
            sys.executable, "-m", "kvsim.evaluate", str(folder), "--texts", "many.jsonl",
            "--policies", "window;h2o", "--budgets", "20%", "-o", "r.sqlite", "--scratch", "local",
        ],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    before = []
    for line in child.stderr:
        before.append(line)
        if re.match(r"kvsim: [1-9]\d* of 200 rows", line):
            break
    child.send_signal(signal.SIGTERM)
    said = child.communicate(timeout=120)[1]
    assert child.returncode == 1, [*before, said]
    assert "kvsim: error: interrupted; r.sqlite keeps the finished rows" in said
    assert 0 < len(kvsim.load("r.sqlite").closed_loop) < 200
    assert list((texts / "local").iterdir()) == []


def test_torch_keeps_to_the_quota(folder, texts, monkeypatch, capsys):
    monkeypatch.setattr(kvsim._engine, "default_threads", lambda: 1)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        run(capsys, folder, *COMMAND[1:], "-o", "r.sqlite")
    finally:
        torch.set_num_threads(before)
    assert set(kvsim.load("r.sqlite").run.threads) == {1}


class TerminatedAt:
    """A finder of modules in which SIGTERM arrives when one is imported."""

    def __init__(self, name):
        self._name = name

    def find_spec(self, name, path=None, target=None):
        if name == self._name:
            signal.raise_signal(signal.SIGTERM)


class TerminatedWhenDropped:
    """In its destructor SIGTERM arrives; Python ignores what is raised there."""

    def __del__(self):
        signal.raise_signal(signal.SIGTERM)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_end_of_a_jobs_time_is_not_lost_in_a_destructor(folder, texts, monkeypatch, capsys):
    add = Rows.add

    def add_and_drop(self, *values):
        add(self, *values)
        TerminatedWhenDropped()

    monkeypatch.setattr(Rows, "add", add_and_drop)
    said = run(capsys, folder, *COMMAND[1:-1], "6,9", "-o", "r.sqlite", status=1)
    assert "kvsim: error: interrupted; r.sqlite keeps the finished rows" in said.err
    assert len(kvsim.load("r.sqlite").closed_loop) == 1


COMMAND = ["zoo", "--text", "story.txt", "--policies", "window", "--budgets", "6"]


def test_the_end_of_a_jobs_time_at_the_start_is_a_line_too(texts, monkeypatch, capsys):
    before = signal.getsignal(signal.SIGTERM)
    name = "kvsim.closed_loop.command"
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "meta_path", [TerminatedAt(name), *sys.meta_path])
    said = run(capsys, *COMMAND, "-o", "r.sqlite", status=1)
    assert said.err == "kvsim: error: interrupted; nothing is kept\n"
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_command_runs_in_a_thread_and_leaves_signals_alone(texts):
    before = signal.getsignal(signal.SIGTERM)
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(main, [*COMMAND, "--shard", "1/2"]).result() == 2
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_folder_for_no_result_file_is_refused(texts, capsys):
    said = run(capsys, *COMMAND, "--scratch", "local", status=2)
    assert said.err.startswith("kvsim: error: --scratch: expected --output, the file")
    with pytest.raises(kvsim.UsageError, match=r"^scratch: expected output"):
        kvsim.evaluate("zoo", "a text", "window", 6, scratch="local")
