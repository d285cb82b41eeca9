"""model_args of the model type `kvsim`, and the command of lm-eval that knows it."""

import json
import sys
from functools import partial

import lm_eval.tasks
import pytest

import kvsim
from kvsim.lm_eval.__main__ import main
from lm_eval_support import MODEL, evaluated, facts_in, task


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return facts_in(tmp_path_factory.mktemp("facts"))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("policy=h2o,budget=20%", "budget 20%: in stream mode the length of the text is not known"),
        ("policy=h2o", "budget: expected tokens, or with mode=prefill a share .* found none"),
        ("budget=8", "policy: expected a policy, .* found none; name it in model_args"),
        ("policy=windw,budget=8", "unknown policy 'windw'; did you mean 'window'"),
        ("polcy=h2o,budget=8", "found polcy; did you mean policy"),
        ("policy=h2o,budget=8,mode=prefil", "mode: expected stream|prefill, found 'prefil'"),
        ("policy=h2o,budget=8,drop=3", "drop: expected true or false, found 3"),
        ("policy=h2o,budget=8,prompt_length=4", "prompt_length: each request of lm-eval has"),
        ("policy=h2o:recent=0.5,score=sum,budget=8", "takes one of the others: .*'score'"),
        ("policy=optimal,budget=8", "optimal"),
        ("policy=h2o,budget=8,eviction_interval=never", "never"),
    ],
)
def test_arguments_that_do_not_fit(arguments, reason, data):
    with pytest.raises(kvsim.UsageError, match=reason) as raised:
        evaluated("kvsim", [task(data)], model_args=f"pretrained={MODEL},device=cpu,{arguments}")
    assert "\n" not in str(raised.value)


def run_command(monkeypatch, folder, arguments):
    """`python -m kvsim.lm_eval` on the task of this folder, without the thousands of lm-eval."""
    path = folder / "task.yaml"
    path.write_text(json.dumps(task(folder)))
    few = partial(lm_eval.tasks.TaskManager, include_defaults=False)
    monkeypatch.setattr(lm_eval.tasks, "TaskManager", few)
    words = ["lm-eval", "--model", "kvsim", "--tasks", "multiple_choice", "--include_path",
             str(folder), "--model_args", arguments]  # fmt: skip
    monkeypatch.setattr(sys, "argv", words)
    return main()


def test_the_command_is_that_of_lm_eval(monkeypatch, data, capsys):
    policy = "h2o:recent=0.5,score=sum"
    arguments = {"pretrained": MODEL, "policy": policy, "budget": "20%", "mode": "prefill"}
    assert run_command(monkeypatch, data, json.dumps(arguments)) == 0
    shown = capsys.readouterr().out
    assert policy in shown and "|multiple_choice|" in shown
    quoted = f"pretrained={MODEL},policy='{policy}',budget=20%,mode=prefill"
    assert run_command(monkeypatch, data, quoted) == 0
    assert capsys.readouterr().out.replace("\r", "") == shown


def test_the_command_refuses_in_one_line(monkeypatch, data, capfd):
    assert run_command(monkeypatch, data, f"pretrained={MODEL},policy=h2o,budget=20%") == 2
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.startswith("kvsim: error: budget 20%: in stream mode")
