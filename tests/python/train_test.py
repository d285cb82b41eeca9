"""kvsim.train: scorers that predict what becomes of tokens, and a file that the engine reads."""

import json
import subprocess
import sys

import numpy as np
import pytest

import kvsim
from conftest import SAMPLE
from kvsim.train.features import Features
from kvsim.train.samples import Samples
from kvsim.train.scorers import fitted, scores

pytest.importorskip("sklearn")

RETRIEVER = SAMPLE.with_name("tiny-retriever.h5")
TEXTS = ["eight-facts-1", "eight-facts-2"]
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
def learned(tmp_path_factory):
    """The rows of a training and its file: linear, on one text."""
    path = tmp_path_factory.mktemp("train") / "m.npz"
    rows = kvsim.train(RETRIEVER, path, sequences=TEXTS[0], scope="layer", progress=False)
    return rows, path


def test_a_learned_policy_keeps_more_of_a_text_that_it_has_not_seen(learned):
    _, path = learned
    rows = kvsim.sweep(RETRIEVER, f"learned:file={path};h2o", "20%", sequences=TEXTS[1])
    recall = rows.groupby(rows.policy.str.split(":").str[0]).attention_recall.mean()
    assert recall["learned"] > recall["h2o"] + 0.02


def test_what_is_explained_is_of_the_last_text(learned, tmp_path):
    alone, _ = learned
    assert alone.explained.isna().all() and (alone.samples > 1000).all()
    found = kvsim.train(
        RETRIEVER, tmp_path / "m.npz", sequences=TEXTS, scope="model", budgets="20%", progress=False
    )
    assert len(found) == 1 and 0.2 < found.explained[0] < 1


@pytest.mark.parametrize(("kind", "target"), zip(KINDS, ["price", "optimum", "future"]))
def test_the_engine_scores_as_the_samples_were_scored(kind, target, tmp_path):
    # Caches of the file itself, so that both see the same ones.
    names = ["now", "mean", "age", "decayed:0.9", "neighbours:0.9", "key", "key_norm", "position"]
    first, path = tmp_path / "first.npz", tmp_path / "second.npz"
    short = {"sequences": TEXTS[0], "scope": "model", "features": names, "progress": False}
    kvsim.train(RETRIEVER, first, kind=kind, target=target, budgets="5%", **short)
    kvsim.train(RETRIEVER, path, policy=f"learned:file={first}", budgets="5%", **short)
    file = np.load(first)
    scorer = {name: file[name][0] for name in file.files if name != "header"}
    unit = {"sequence": TEXTS[1], "layer": 2, "kv_head": 1}

    class Same(kvsim.Policy):
        name = "same"
        rules = kvsim.Rules(
            protect_first=4, protect_newest=1, sees_values=True, sees_kinds=True, sees_rotation=True
        )

        def __init__(self, budget):
            self.features = None

        def update(self, step, into):
            if self.features is None:
                self.features = Features(names, 640, self.rotation)
            self.features.add(step)
            into[:] = scores(kind, scorer, self.features.columns(step).astype(np.float32))

    left = [kvsim.replay(RETRIEVER, p, 32, **unit) for p in (f"learned:file={first}", Same)]
    assert np.mean(left[0].evicted_after == left[1].evicted_after) > 0.97


def test_equal_settings_give_equal_bytes_and_the_file_says_what_they_were(learned, tmp_path):
    _, path = learned
    again = tmp_path / "again.npz"
    kvsim.train(RETRIEVER, again, sequences=TEXTS[0], scope="layer", progress=False)
    assert again.read_bytes() == path.read_bytes()
    header = json.loads(bytes(np.load(path)["header"]))
    assert header["trained_on"] == [[kvsim.Trace(RETRIEVER).trace_id, TEXTS[0]]]
    assert (header["target"], header["policy"], header["keys"]) == ("future", "h2o", "unrotated")


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


def test_the_command_writes_a_file_and_ends_wrong_usage_in_one_line(tmp_path):
    command = [sys.executable, "-m", "kvsim.train", str(RETRIEVER), "-o", str(tmp_path / "m.npz")]
    some = ["--scope", "model", "--features", "now,age", "--budgets", "5%", "--sequences", TEXTS[0]]
    done = subprocess.run([*command, *some], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "1 scorers" in done.stderr and (tmp_path / "m.npz").exists()
    wrong = subprocess.run(
        [*command, "--policy", "h3o"], capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 2
    assert wrong.stderr.count("kvsim: error:") == 1 and "h2o" in wrong.stderr
