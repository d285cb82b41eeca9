"""python -m kvsim.second_reading writes what kvsim.second_reading writes, or one line."""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

import kvsim
from kvsim.second_reading.__main__ import main
from record_zoo import build, letters, tokens

LENGTH, PROMPT = 30, 26


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny-llama"
    build("llama").save_pretrained(folder)
    letters().save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("again") / "t.h5"
    model, names = build("llama"), ["one", "two"]
    with kvsim.recording(model, path, names=names, prompt_length=PROMPT), torch.no_grad():
        for seed in range(len(names)):
            model(tokens(LENGTH, seed))
    return str(path)


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_command_writes_what_the_function_writes(folder, trace, capsys):
    options = ["--chunk", "10", "--sinks", "2", "--suffix", " so ", "--reads", "text"]
    options += ["--sequences", "one", "--budgets", "c.npy"]
    assert main([folder, trace, "-o", "c.h5", *options]) == 0
    assert "c.h5 is written; replay it with kvzip:file=c.h5,reads=text" in capsys.readouterr().err
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    # It takes the tokenizer from where the model was loaded.
    kvsim.second_reading(
        model.eval(), trace, "s.h5", chunk=10, sinks=2, suffix=" so ", reads="text",
        sequences=["one"], budgets="b.npy",
    )  # fmt: skip
    assert Path("c.h5").read_bytes() == Path("s.h5").read_bytes()
    np.testing.assert_array_equal(np.load("c.npy"), np.load("b.npy"))
    assert sorted(path.name for path in Path().iterdir()) == ["b.npy", "c.h5", "c.npy", "s.h5"]


@pytest.mark.parametrize(
    ("status", "message", "arguments"),
    [
        (2, "sequences: expected some of one, two, found three", ["--sequences", "three"]),
        (2, "--chunk: expected a whole number from 1 on, found 0", ["--chunk", "0"]),
        (2, "budgets: expected one sequence, found 2", ["--budgets", "b.npy"]),
        (2, "--device: expected one as cpu or cuda, found moon", ["--device", "moon"]),
    ],
)
def test_errors_are_one_line_and_nothing_is_written(
    status, message, arguments, folder, trace, capsys
):
    assert _status(folder, trace, "-o", "s.h5", *arguments) == status
    assert message in _error(capsys)
    assert list(Path().iterdir()) == []


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
