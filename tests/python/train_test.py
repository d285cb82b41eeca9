"""kvsim.train: scorers that predict what becomes of tokens, and a file that the engine reads."""

import json
import subprocess
import sys

import numpy as np
import pytest

import kvsim
from conftest import SAMPLE
from kvsim.train.__main__ import main
from kvsim.train.features import Features
from kvsim.train.samples import Samples
from kvsim.train.scorers import fitted, scores

pytest.importorskip("sklearn")

RETRIEVER = SAMPLE.with_name("tiny-retriever.h5")
TEXTS = ["eight-facts-1", "eight-facts-2"]
QUIET = {"progress": False}
KINDS = ["linear", "mlp", "trees"]


def noisy(rows=2000, seed=0):
    """A target that depends on three of eight features, one of which is constant."""
    drawn = np.random.default_rng(seed)
    x = drawn.normal(3, [1, 10, 0.1, 1, 1, 1, 1, 0], (rows, 8)).astype(np.float32)
    y = x[:, 0] - 0.1 * x[:, 1] + np.abs(x[:, 2] - 3) + 0.1 * drawn.normal(size=rows)
    return Samples(x, y.astype(np.float32))


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_predicts_new_samples_in_raw_units(kind):
    scorer, new = fitted(kind, noisy(), seed=0), noisy(seed=1)
    left = new.targets - scores(kind, scorer, new.features)
    assert np.mean(left**2) < 0.1 * np.var(new.targets)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A trace of two heads and 192 tokens."""
    path = tmp_path_factory.mktemp("train") / "small.h5"
    kvsim.synth(path, tokens=192, layers=2, query_heads=2, kv_heads=1, head_dim=8, seed=5)
    return path


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """The rows of a training and its file: linear, on one text."""
    path = tmp_path_factory.mktemp("train") / "m.npz"
    rows = kvsim.train(RETRIEVER, path, sequences=TEXTS[0], budgets="20%", progress=False)
    return rows, path


def test_a_learned_policy_keeps_more_of_a_text_that_it_has_not_seen(learned):
    _, path = learned
    rows = kvsim.sweep(RETRIEVER, f"learned:file={path};h2o", "20%", sequences=TEXTS[1])
    recall = rows.groupby(rows.policy.str.split(":").str[0]).attention_recall.mean()
    assert recall["learned"] > recall["h2o"] + 0.005


def test_what_is_explained_is_of_the_last_text(learned, tmp_path):
    alone, _ = learned
    assert alone.explained.isna().all() and (alone.samples > 1000).all() and len(alone) == 16
    found = kvsim.train(
        RETRIEVER, tmp_path / "m.npz", sequences=TEXTS, scope="model", budgets="5%",
        features="now,mean,age", **QUIET,
    )  # fmt: skip
    assert len(found) == 1 and 0.2 < found.explained[0] < 1


@pytest.mark.parametrize(
    ("kind", "target"), [*zip(KINDS, ["price", "optimum", "future"], strict=True)]
)
def test_the_engine_scores_as_the_samples_were_scored(kind, target, small, tmp_path):
    names = ["now", "mean", "age", "decayed:0.9", "neighbours:0.9", "key", "key_norm", "position"]
    path = tmp_path / "m.npz"
    kvsim.train(small, path, kind=kind, target=target, scope="model", features=names, **QUIET)
    file = np.load(path)
    scorer = {name: file[name][0] for name in file.files if name != "header"}

    class Same(kvsim.Policy):
        name = "same"
        rules = kvsim.Rules(protect_first=4, protect_newest=1, sees_values=True, sees_kinds=True)

        def __init__(self, budget):
            self.features = Features(names, 192, None)

        def update(self, step, into):
            self.features.add(step)
            into[:] = scores(kind, scorer, self.features.columns(step).astype(np.float32))

    (sequence,) = kvsim.Trace(small).sequences
    unit = {"sequence": sequence.name, "layer": 1, "kv_head": 0}
    found, same = (kvsim.replay(small, p, 32, **unit) for p in (f"learned:file={path}", Same))
    # Trees give many tokens one score, up to rounding.
    assert np.mean(found.evicted_after == same.evicted_after) > 0.97


def header_of(path):
    return json.loads(bytes(np.load(path)["header"]))


def test_equal_settings_give_equal_bytes_and_the_file_says_what_they_were(small, tmp_path):
    files = [tmp_path / "m.npz", tmp_path / "again.npz"]
    for file in files:
        kvsim.train(small, file, budgets="20%", **QUIET)
    assert files[0].read_bytes() == files[1].read_bytes()
    header = header_of(files[0])
    (text,) = kvsim.Trace(small).sequences
    assert header["trained_on"] == [[kvsim.Trace(small).trace_id, text.name]]
    assert (header["target"], header["policy"]) == ("future", "h2o")


def test_keys_are_rotated_back_where_the_trace_says_how(learned):
    _, path = learned
    assert header_of(path)["keys"] == "unrotated"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "forest"}, "kind: expected linear, mlp, trees, found 'forest'"),
        ({"target": "past"}, "target: expected future, price, optimum, found 'past'"),
        ({"features": ["nows"]}, "found nows"),
        ({"features": []}, "features: expected at least one"),
        ({"features": ["now", "now"]}, "expected each once"),
        ({"sequences": "nine"}, "there is no text 'nine'"),
        ({"output": "m.pt"}, "expected a file .npz, found m.pt"),
        ({"budgets": "100%", "sequences": TEXTS[0]}, "there are no samples"),
    ],
)
def test_what_cannot_be_trained_is_refused(settings, message, tmp_path):
    arguments = {"output": tmp_path / "m.npz", "progress": False} | settings
    with pytest.raises((kvsim.UsageError, kvsim.DataError), match=message):
        kvsim.train(RETRIEVER, **arguments)
    assert not list(tmp_path.iterdir())


def test_the_command_writes_a_file_and_ends_wrong_usage_in_one_line(small, tmp_path, capsys):
    command = [str(small), "-o", str(tmp_path / "m.npz")]
    assert main([*command, "--scope", "layer", "--features", "now,age", "--budgets", "10%"]) == 0
    assert "2 scorers" in capsys.readouterr().err and (tmp_path / "m.npz").exists()
    wrong = subprocess.run(
        [sys.executable, "-m", "kvsim.train", *command, "--policy", "h3o"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert wrong.returncode == 2
    assert wrong.stderr.count("kvsim: error:") == 1 and "h2o" in wrong.stderr
