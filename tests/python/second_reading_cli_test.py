"""python -m kvsim.second_reading writes what kvsim.second_reading writes, or one line."""

import shlex
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import transformers

import kvsim
from conftest import needs_program
from kvsim.second_reading import __main__ as command
from kvsim.second_reading.__main__ import main
from record_zoo import build, letters
from second_readings import two_texts


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny-llama"
    build("llama").save_pretrained(folder)
    letters().save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return str(two_texts(build("llama"), tmp_path_factory.mktemp("again") / "t.h5"))


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_command_writes_what_the_function_writes(folder, trace, capsys):
    options = ["--chunk", "10", "--sinks", "2", "--suffix", " so ", "--reads", "text"]
    options += ["--sequences", "one", "--budgets", "c.npy"]
    assert main([folder, trace, "-o", "c.h5", *options]) == 0
    assert capsys.readouterr().err.endswith(
        "kvsim: c.h5 is written; replay it with --policies "
        "kvzip:file=c.h5,reads=text,sinks=2@file:c.npy --sequences one\n"
    )
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    # It takes the tokenizer from where the model was loaded.
    kvsim.second_reading(
        model.eval(), trace, "s.h5", chunk=10, sinks=2, suffix=" so ", reads="text",
        sequences=["one"], budgets="b.npy",
    )  # fmt: skip
    assert Path("c.h5").read_bytes() == Path("s.h5").read_bytes()
    np.testing.assert_array_equal(np.load("c.npy"), np.load("b.npy"))
    assert sorted(path.name for path in Path().iterdir()) == ["b.npy", "c.h5", "c.npy", "s.h5"]


@needs_program
@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--reads", "text", "--sinks", "2"],
        ["--sinks", "0", "--sequences", "two", "--budgets", "my b.npy"],
    ],
)
def test_the_printed_options_replay_the_scores(options, folder, trace, program, capsys):
    assert main([folder, trace, "-o", "my c.h5", *options]) == 0
    printed = shlex.split(capsys.readouterr().err.splitlines()[-1].partition("replay it with ")[2])
    program("sweep", trace, *printed, "--budgets", "50%", "-o", "r.sqlite", cwd=".")
    rows = kvsim.load("r.sqlite").replay
    assert set(rows.sequence) == ({"two"} if "--budgets" in options else {"one", "two"})
    assert set(rows["mode"]) == {"stream" if "text" in options else "prefill:interval=never"}
    assert rows.evictions.sum() > 0


@pytest.mark.parametrize(
    ("status", "message", "arguments"),
    [
        (2, "sequences: expected some of one, two, found three", ["--sequences", "three"]),
        (2, "--chunk: expected a whole number from 1 on, found 0", ["--chunk", "0"]),
        (2, "--device: expected one as cpu or cuda, found moon", ["--device", "moon"]),
    ],
)
def test_errors_are_one_line_and_nothing_is_written(
    status, message, arguments, folder, trace, capsys
):
    assert _status(folder, trace, "-o", "s.h5", *arguments) == status
    assert message in _error(capsys)
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("budgets: expected one sequence, found 2", ["--budgets", "b.npy"]),
        ("budgets: expected a file .npy, found b.h5", ["--budgets", "b.h5"]),
        ("sequences: expected some of one, two, found three", ["--sequences", "three"]),
    ],
)
def test_arguments_are_refused_before_the_model_is_loaded(message, arguments, trace, capsys):
    assert _status("./missing", trace, "-o", "s.h5", *arguments) == 2
    assert message in _error(capsys)


def test_a_chat_template_that_fails_asks_for_the_suffix(folder, trace, capsys):
    tokenizer = letters()
    tokenizer.chat_template = "{{ raise_exception('System first') }}"
    shutil.copytree(folder, "strict")
    tokenizer.save_pretrained("strict")
    assert _status("strict", trace, "-o", "s.h5") == 2
    assert "suffix: the chat template fails (System first); give the suffix as" in _error(capsys)
    assert not Path("s.h5").exists()
    assert _status("strict", trace, "-o", "s.h5", "--suffix", ".", "-q") == 0


def test_any_error_is_one_line_and_warnings_are_lines(folder, trace, capsys, monkeypatch):
    def run(*_, **__):
        warnings.warn("a note", kvsim.RecordWarning, stacklevel=1)
        raise ZeroDivisionError("by\nzero")

    monkeypatch.setattr(command, "second_reading", run)
    assert _status(folder, trace, "-o", "s.h5") == 1
    assert capsys.readouterr().err == (
        "kvsim: warning: a note\nkvsim: error: ZeroDivisionError: by zero\n"
    )


def test_a_missing_trace_or_model_is_a_data_error(folder, trace, capsys):
    assert _status(folder, "missing.h5", "-o", "s.h5") == 3
    assert "missing.h5" in _error(capsys)
    assert _status("./missing", trace, "-o", "s.h5") == 3
    assert "./missing: there is no such folder" in _error(capsys)
    assert list(Path().iterdir()) == []


def _status(*arguments):
    try:
        return main(arguments)
    except SystemExit as ended:
        return ended.code


def _error(capsys):
    lines = [x for x in capsys.readouterr().err.splitlines() if x.startswith("kvsim: error: ")]
    assert len(lines) == 1
    return lines[0]
