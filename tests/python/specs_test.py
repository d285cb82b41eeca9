"""`kvsim.specs`: what completes in Python is what the registry has."""

import inspect
import pickle
from pathlib import Path

import pytest

import kvsim

ENGINE = pytest.importorskip("kvsim._engine")
SAMPLE = Path(__file__).parents[2] / "traces" / "sample" / "tiny-llama.h5"
ROWS = {row["name"]: row for row in ENGINE.policies() if not row["origin"]}


def canonical(*specs):
    return [row["text"] for row in ENGINE.specs([*map(str, specs)], "uniform")]


def test_every_policy_completes_and_shows_its_parameters():
    assert {name.replace("-", "_") for name in ROWS} <= set(dir(kvsim.specs))
    for name, row in ROWS.items():
        spec = getattr(kvsim.specs, name.replace("-", "_"))
        shown = [each.rstrip("_") for each in inspect.signature(spec).parameters]
        expected = [each[0].replace("-", "_") for each in row["parameters"]]
        assert shown == expected + ["preset"] * bool(row["presets"]), name
        assert row["keeps"] in inspect.getdoc(spec)


def test_defaults_that_are_written_out_are_the_policy_at_its_defaults():
    tried = 0
    for name, row in ROWS.items():
        if any(each[0] == "file" for each in row["parameters"]):
            continue  # its spec names a file that there must be
        spec = getattr(kvsim.specs, name.replace("-", "_"))
        values = {
            key: each.default
            for key, each in inspect.signature(spec).parameters.items()
            if each.default not in (None, "")
        }
        assert canonical(spec(**values)) == canonical(spec) == canonical(name)
        tried += 1
    assert tried > 30


def test_a_call_gives_the_text_of_the_spec():
    assert kvsim.specs.h2o(recent=0.25) == "h2o:recent=0.25"
    assert kvsim.specs.h2o() == kvsim.specs.h2o == "h2o"
    assert kvsim.specs.h2o(recent=[0.25, 0.5]) == "h2o:recent={0.25,0.5}"
    assert len(canonical(kvsim.specs.h2o(recent=[0.25, 0.5]))) == 2
    assert pickle.loads(pickle.dumps(kvsim.specs.h2o)) == "h2o"


def test_a_sum_is_a_policy_with_a_combinator():
    both = kvsim.specs.h2o(recent=0.25) + "protect:first=2" + "+threshold"
    assert both == "h2o:recent=0.25+protect:first=2+threshold"
    assert canonical(kvsim.specs.tova + "protect:first=2") == canonical("tova+protect:first=2")


def test_a_policy_that_is_not_called_is_swept_as_its_name():
    swept = [kvsim.specs.h2o, kvsim.specs.h2o(recent=(0.25, 0.75))]
    frame = kvsim.sweep(SAMPLE, swept, budgets=[24], layers=1, progress=False)
    assert set(frame.policy) == set(canonical("h2o:recent={0.5,0.25,0.75}"))
    rows = [
        kvsim.replay(SAMPLE, policy, 24, sequence="copied-segment", layer=0, kv_head=0).row
        for policy in (kvsim.specs.tova, "tova")
    ]
    assert rows[0].policy == rows[1].policy == canonical("tova")[0]


def test_a_wrong_parameter_is_an_error_that_names_those_there_are():
    with pytest.raises(kvsim.UsageError, match=r"specs\.h2o: .*recent.*found recnt"):
        kvsim.specs.h2o(recnt=0.25)
    with pytest.raises(AttributeError, match="no policy is named 'h3o'"):
        _ = kvsim.specs.h3o


def test_a_class_of_ones_own_is_among_them():
    class Listed(kvsim.Policy):
        name = "listed-here"

        def __init__(self, budget, seed=0, decay=0.9, fair=False):
            self.decay = decay

        def update(self, step, scores):
            scores += step.attention

    assert "listed_here" in dir(kvsim.specs)
    assert canonical(kvsim.specs.listed_here(decay=0.5, fair=True)) == [
        "listed-here:decay=0.5,fair=yes"
    ]
