"""kvsim.tune on traces: what it finds and keeps, and what it refuses."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import kvsim
from conftest import HERE, SAMPLE

pytest.importorskip("optuna")
from kvsim.tune.__main__ import main
from kvsim.tune.tuned import Tuned
from tune_support import traces, tuned

PAGE = HERE.parents[1] / "python" / "tune.md"


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return tuned(output=tmp_path_factory.mktemp("tune") / "out", name="found-here")


def test_the_found_policy_lost_least_on_the_texts_of_the_search(found):
    tried = found.ranked[found.ranked.role == "found"]
    assert found.policy == found.ranked.policy[0]
    assert tried.open_loop_loss.min() == found.ranked.open_loop_loss[0]
    assert found.searched_on == ("t0", "t1", "t2") and found.held_out == ("t3",)
    rows = kvsim.sweep(traces()[:3], found.policy, 12)
    expected = rows.groupby("sequence")[found.objective].mean().mean()
    assert found.ranked.open_loop_loss[0] == pytest.approx(expected, rel=1e-6)


def test_held_out_losses_are_those_of_texts_that_the_search_did_not_see(found):
    held = found.ranked[found.ranked.held_out_loss.notna()]
    assert set(held.role) == {"found", "default", "optimum"}
    row = held.iloc[0]
    rows = kvsim.sweep(traces()[3], row.policy, 12)
    assert row.held_out_loss == pytest.approx(rows[found.objective].mean(), rel=1e-6)
    defaults = held[held.role == "default"]
    assert defaults.ratio.min() == 1 and np.isnan(row.low)
    assert row.ratio == pytest.approx(row.held_out_loss / defaults.held_out_loss.min())


def test_intervals_are_over_held_out_texts():
    held = tuned(held_out=["t1", "t2", "t3"]).ranked
    row = held.iloc[0]
    assert row.low < row.held_out_loss < row.high
    assert row.ratio_low <= row.ratio <= row.ratio_high


def test_a_figure_leaves_the_callers_backend(found, tmp_path, monkeypatch):
    import matplotlib

    monkeypatch.setitem(matplotlib.rcParams, "backend", "svg")
    found.figure(tmp_path / "loss.png")
    assert matplotlib.get_backend() == "svg"


def test_the_folder_has_the_recipe_the_frame_and_the_figure(found):
    folder = found.recipe.parent
    assert (folder / "ranked.csv").read_text().splitlines()[0].startswith("policy,role,stage")
    assert (folder / "loss.png").read_bytes().startswith(b"\x89PNG")
    row = kvsim.sweep(traces()[0], f"recipe:file={found.recipe}", 12).iloc[0]
    assert row.policy == found.policy and row.label == "found-here"
    assert "kvsim_recipe: 1" in found.recipe.read_text()


def test_a_recipe_has_the_score_of_a_page_unless_it_is_the_mean(found, tmp_path):
    assert "page_score" not in found.recipe.read_text()
    recipe = tuned(2, space="lru", page=4, page_score="max", output=tmp_path).recipe
    assert 'page_score: "max"' in recipe.read_text()
    out = kvsim.export_recipe(recipe, to="pages", output=tmp_path / "pages.json")
    assert '"page_score": "max"' in out.read_text()


def test_the_same_call_goes_on_and_repeats_nothing(found, monkeypatch):
    from kvsim.tune import search

    asked = []
    monkeypatch.setattr(search, "_asked", lambda *each: asked.append(each))
    again = tuned(output=found.recipe.parent)
    assert asked == [] and again.policy == found.policy
    assert again.ranked.equals(found.ranked)


@pytest.mark.parametrize("loss", [np.nan, np.inf])
def test_a_loss_that_is_no_finite_number_is_a_trial_without_a_result(monkeypatch, loss):
    from kvsim.tune.stages import Stages

    means = Stages._means
    monkeypatch.setattr(
        Stages,
        "_means",
        lambda self, specs: {
            spec: loss if spec.startswith("lru") else value
            for spec, value in means(self, specs).items()
        },
    )
    with pytest.warns(kvsim.KvsimWarning, match="the loss of lru:score=cached is"):
        found = tuned(2, space="lru;tova")
    assert found.policy.startswith("tova") and found.tried == 1


def test_the_objective_is_one_that_search_and_held_out_traces_hold():
    gradients = np.random.default_rng(0).normal(size=(1, 2, 48, 8))
    both = traces(2, output_score_grad=gradients)
    how = dict(space="lru;tova", trials=2, figure_budgets=[], progress=False)
    assert kvsim.tune(both, 12, **how).objective == "predicted_kl"
    one = [both[0], traces(2)[1]]
    assert kvsim.tune(one, 12, **how).objective == "output_error_sq"
    with pytest.raises(kvsim.UsageError, match="do not hold what predicted_kl needs"):
        kvsim.tune(one, 12, objective="predicted_kl", **how)


def test_a_spec_that_the_engine_refuses_counts_as_a_trial_without_a_result():
    with pytest.warns(kvsim.KvsimWarning, match="a trial has no result: .*critical"):
        found = tuned(2, space="lru;+critical", trials=4).ranked  # the traces have no W_O
    assert found.policy[found.policy.str.startswith("lru")].tolist() == ["lru:score=cached"]


def test_a_search_without_any_result_is_one_line():
    with (
        pytest.warns(kvsim.KvsimWarning, match="a trial has no result"),
        pytest.raises(kvsim.UsageError, match="refuses every spec"),
    ):
        tuned(2, space="lru+critical", trials=1)


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"texts": ["a"]}, "traces hold their own"),
        ({"objective": "recall"}, "expected one of predicted_kl"),
        ({"objective": "predicted_kl"}, "record them with --also"),
        ({"trials": 0}, "trials: expected a whole number from 1"),
        ({"finalists": True}, "finalists: expected a whole number"),
        ({"figure_budgets": ["10%,20%"]}, "budget: expected one"),
        ({"figure_budgets": ["many"]}, "many"),
        ({"space": "h20"}, "did you mean"),
        ({"space": ""}, "at least one policy"),
        ({"space": [1]}, "expected specs as texts"),
        ({"space": "lru;@cake", "page": 4}, "does not come to whole pages"),
        ({"name": "tova"}, "the name of a policy"),
        ({"prompt_length": 4}, "prompt_length: traces hold their own"),
    ],
)
def test_arguments_that_cannot_be_meant_are_one_line(options, hint):
    with pytest.raises(kvsim.UsageError, match=hint):
        tuned(**options)


def test_another_file_under_a_name_of_the_output_is_refused_at_once(tmp_path):
    (tmp_path / "recipe.yaml").write_text("mine: 1\n")
    with pytest.raises(kvsim.UsageError, match="holds no recipe"):
        tuned(output=tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["recipe.yaml"]


@pytest.mark.parametrize(("default", "is_said"), [(0.1, True), (0.5, False)])
def test_a_default_that_loses_less_than_what_was_found_is_said(default, is_said):
    rows = [("sink", "found", 0.4), ("tova", "default", default), ("optimal", "optimum", 0.01)]
    ranked = pd.DataFrame(rows, columns=["policy", "role", "held_out_loss"])
    ranked[["low", "high", "ratio", "ratio_low", "ratio_high"]] = float("nan")
    found = Tuned("sink", None, "kl_mean", "predicted_kl", ranked, ranked, ("a",), ("b",), 1)
    assert ("tova, a default, loses less" in found.summary()) == is_said


def test_without_optuna_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(kvsim.KvsimError, match=r"; pip install 'kvsim\[tune\]'$"):
        tuned()


def test_the_command_takes_a_share_of_held_out_texts_as_a_number(tmp_path, monkeypatch):
    from kvsim.tune import __main__ as command

    asked = []

    def stop(announce, **arguments):
        asked.append(arguments["held_out"])
        raise kvsim.UsageError("enough")

    monkeypatch.setattr(command, "tune_as", stop)
    for text in ("0.3", "30%", "t0,t1"):
        main([str(SAMPLE), "--budget", "20%", "-o", str(tmp_path), "--held-out", text])
    assert asked == [0.3, "30%", ["t0", "t1"]]


def test_a_frame_that_cannot_be_written_is_one_line_and_the_recipe_is_there(tmp_path):
    (tmp_path / "ranked.csv").mkdir()
    with pytest.raises(kvsim.KvsimError, match=r"ranked\.csv") as failed:
        tuned(2, space="lru", output=tmp_path)
    assert "\n" not in str(failed.value) and (tmp_path / "recipe.yaml").exists()


def test_the_command_ends_with_one_line_for_bad_usage(tmp_path, capsys):
    assert main(["none.h5", "--budget", "20%", "-o", str(tmp_path)]) == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_the_page_shows_a_search_that_works(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("traces").symlink_to(HERE.parents[1] / "traces")
    text = PAGE.read_text()
    (command,) = re.findall(r"```sh\n(.*?)\npython -m kvsim.tune MODEL", text, re.DOTALL)
    words = command.replace("\\\n", " ").replace("'", "").replace('"', "").split()[3:]
    assert main(words) == 0
    assert "held-out text" in capsys.readouterr().out
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(blocks[0], {"kvsim": kvsim})
    assert Path("tuned/recipe.yaml").exists() and Path("press.py").exists()
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "kvsim.recipe",
            "tuned/recipe.yaml",
            "--to",
            "pages",
            "-o",
            "p.json",
        ],
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 2 and "it has no pages" in ended.stderr
