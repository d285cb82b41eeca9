"""replay, curve, analyze, synth and policies in process: the program's numbers."""

import h5py
import numpy as np
import pytest

import kvsim
from conftest import SAMPLE, same, specs_of

TEXT = "copied-segment"


def written(program, folder, verb, *arguments):
    program(verb, SAMPLE, *arguments, "-q", "-o", "program.sqlite", cwd=folder)
    return kvsim.load(folder / "program.sqlite")


def test_curves_are_those_of_the_program(program, tmp_path):
    choice = ["--layers", "1-2", "--heads", "0", "--policies", "all;optimal"]
    expected = written(program, tmp_path, "curve", *choice, "--output-error", "20%")
    file = tmp_path / "results.sqlite"
    policies = specs_of(expected.curve)
    found = kvsim.curve(
        SAMPLE, policies, layers=[1, 2], heads=0, output_error=["20%"], output=file, threads=2
    )
    assert set(found.budget) == set(range(1, 513))
    same(found, expected.curve)
    same(found, kvsim.load(file).curve)
    assert set(found.run_id) == set(kvsim.load(file).run.run_id)


def test_analyses_are_those_of_the_program(program, tmp_path):
    choice = ["--layers", "1", "--heads", "0", "--policies", "h2o;window", "--budgets", "10%"]
    expected = written(program, tmp_path, "analyze", "--what", "all", *choice)
    found = kvsim.analyze(SAMPLE, "all", ["h2o", "window"], ["10%"], layers=1, heads=0, threads=2)
    assert len(found) > 10
    for name, frame in found.items():
        same(frame, expected[name])


def test_an_analysis_has_parameters_and_writes_a_file_where_asked(tmp_path):
    file = tmp_path / "results.sqlite"
    what = ["sparsity:threshold=0.1", "persistence"]
    found = kvsim.analyze(SAMPLE, what, layers=0, output=file)
    assert list(found) == ["sparsity", "persistence", "unit"]
    assert set(found["sparsity"].threshold) == {0.1}
    same(found["sparsity"], kvsim.load(file).sparsity)
    about, expected = found["sparsity"].attrs, kvsim.load(file).sparsity.attrs
    assert about["about"]["sparsity"] == expected["about"]["sparsity"] != ""
    assert (about["shows"], about["source"]) == (expected["shows"], expected["source"])


@pytest.mark.parametrize("spec", ["h2o", "optimal", "spatten", "topk"])
def test_a_replay_is_that_of_the_per_step_file(program, tmp_path, spec):
    file = tmp_path / "steps.h5"
    program(
        "replay", SAMPLE, "--policy", spec, "--budget", "10%", "--mode", "prefill", "-q",
        "--sequences", TEXT, "--per-step", file, cwd=tmp_path,
    )  # fmt: skip
    found = kvsim.replay(SAMPLE, spec, "10%", TEXT, layer=2, kv_head=3, mode="prefill")
    with h5py.File(file) as steps:
        group = steps[f"sequences/{TEXT}/layers/2/kv_heads/3"]
        for name in ("evicted_after", "attention_recall", "output_error", "slot_price"):
            array = getattr(found, name)
            assert (array is not None) == (name in group)
            if array is not None:
                np.testing.assert_array_equal(array, group[name], strict=True)
                assert not array.flags.writeable
        assert found.row.policy == group.attrs["policy"].decode()
    row = kvsim.sweep(SAMPLE, spec, "10%", "prefill", sequences=TEXT, layers=2, heads=3).iloc[0]
    assert found.row.drop("policy_code").equals(row.drop("policy_code"))
    assert found.attention_recall.mean(dtype=float) == pytest.approx(row.attention_recall)


def test_a_replay_finds_the_only_unit_and_names_the_choices_where_there_are_several():
    trace = kvsim.Trace.from_arrays(*np.random.default_rng(0).normal(size=(3, 1, 20, 4)))
    assert len(kvsim.replay(trace, "window", 5).evicted_after) == 20
    with pytest.raises(kvsim.UsageError, match=r"layer: expected one of 0, 1, 2, 3"):
        kvsim.replay(SAMPLE, "window", 5, TEXT)
    with pytest.raises(kvsim.UsageError, match=r"policy: expected one, found 2"):
        kvsim.replay(trace, "window;h2o", 5)


def test_a_made_up_trace_is_that_of_the_program(program, tmp_path):
    program(
        "synth", "--tokens", "90", "--layers", "1", "--seed", "3", "-o", "made.h5", cwd=tmp_path
    )
    made = kvsim.synth(tokens=90, layers=1, seed=3)
    in_file = kvsim.synth(tmp_path / "here.h5", tokens=90, layers=1, seed=3)
    assert made.trace_id == in_file.trace_id == kvsim.Trace(tmp_path / "made.h5").trace_id
    assert made.path is None and in_file.path == str(tmp_path / "here.h5")
    with pytest.raises(kvsim.UsageError, match="local_decay: expected a number in"):
        kvsim.synth(local_decay=2)
    with pytest.raises(kvsim.UsageError, match="did you mean tokens"):
        kvsim.synth(token=2)


def test_the_registry_is_a_frame():
    frame = kvsim.policies().set_index("name")
    assert frame.loc["window"].nests and not frame.loc["h2o"].nests
    assert frame.loc["optimal"].oracle and not frame.loc["h2o"].oracle
    assert "recent" in [each.name for each in frame.loc["h2o"].parameters]
    assert frame.loc["h2o"].presets[0].reproduces
    assert frame.loc["h2o"].origin == ""
    assert frame.loc[["optimal", "topk"]].reference.all() and not frame.loc["h2o"].reference
    assert frame.loc["window"].color_place == 0 and frame.loc["h2o"].color_place == 1
