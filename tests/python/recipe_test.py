"""Recipes as both loops and other programs take them."""

import json

import numpy as np
import pytest

import kvsim
from kvsim.recipe import read_recipe, write_recipe
from kvsim.recipe.__main__ import main

ONCE = {"mode": "prefill", "eviction_interval": "never"}


def trace():
    random = np.random.default_rng(0)
    return kvsim.Trace.from_arrays(*random.normal(size=(3, 2, 40, 8)), prompt_length=30)


def written(folder, policy="lru", **fields):
    folder.mkdir(exist_ok=True)
    return write_recipe(folder / "r.yaml", {"policy": policy, "budget": "20%", **fields})


def test_a_recipe_is_replayed_as_what_it_names(tmp_path):
    path = written(tmp_path, "h2o:recent=0.25+protect:first=2", name="found-here")
    rows = kvsim.sweep(trace(), [f"recipe:file={path}", "h2o:recent=0.25+protect:first=2"], 8)
    assert len(rows) == 2 and set(rows.label) == {"found-here"}
    with pytest.raises(kvsim.UsageError, match="splits the budget itself"):
        kvsim.sweep(trace(), f"recipe:file={written(tmp_path, 'lru@pyramid')}@cake", 8)


def test_a_recipe_keeps_the_files_of_its_policy_apart_from_the_folder_it_is_read_in(
    tmp_path, monkeypatch
):
    np.save(tmp_path / "w.npy", np.ones((1, 2)))
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path / "out", "lru@file:file=w.npy,sha256=")
    assert "@file:file=../w.npy" in path.read_text()
    expected = kvsim.sweep(trace(), "lru@file:w.npy", 8).attention_recall
    monkeypatch.chdir(tmp_path / "out")
    assert kvsim.sweep(trace(), "recipe:file=r.yaml", 8).attention_recall.equals(expected)
    assert read_recipe("r.yaml").policy.startswith("lru:score=cached@file:file=../w.npy,sha256=")


def test_a_file_that_is_no_recipe_is_not_replaced(tmp_path):
    (tmp_path / "r.yaml").write_text("mine: 1\n")
    with pytest.raises(kvsim.UsageError, match="holds no recipe"):
        written(tmp_path)
    with pytest.raises(kvsim.DataError, match="unknown key 'mine'"):
        kvsim.sweep(trace(), f"recipe:file={tmp_path / 'r.yaml'}", 8)


KVPRESS = {
    "window": "StreamingLLMPress(n_sink=0, compression_ratio=0.8)",
    "sink:sinks=2": "StreamingLLMPress(n_sink=2, compression_ratio=0.8)",
    "knorm": "KnormPress(compression_ratio=0.8)",
    "tova:preset=paper": "TOVAPress(compression_ratio=0.8)",
    "snapkv:preset=code,window=8": "SnapKVPress(window_size=8, kernel_size=5, "
    "compression_ratio=0.8)",
    "keydiff+critical": "CriticalKVPress(KeyDiffPress(compression_ratio=0.8))",
    "knorm@adaptive": "AdaKVPress(KnormPress(compression_ratio=0.8))",
    "expected-attention": "ExpectedAttentionPress(n_future_positions=512, n_sink=4, "
    "use_covariance=True, use_vnorm=True, epsilon=0, compression_ratio=0.8)",
}


@pytest.mark.parametrize("policy", KVPRESS)
def test_a_press_is_written_with_the_parameters_of_its_policy(tmp_path, policy):
    path = written(tmp_path, policy, **ONCE)
    code = kvsim.export_recipe(path, to="kvpress", output=tmp_path / "press.py").read_text()
    assert code.endswith(f"press = {KVPRESS[policy]}\n")
    compile(code, "press.py", "exec")


@pytest.mark.parametrize(
    "policy", ["sink:sinks=3", "snapkv:preset=code,window=4", "knorm", "keydiff"]
)
def test_the_press_keeps_what_the_recipe_keeps(tmp_path, policy):
    pytest.importorskip("kvpress")
    path = written(tmp_path, policy, **ONCE)
    scope = {}
    exec(kvsim.export_recipe(path, to="kvpress", output=tmp_path / "p.py").read_text(), scope)
    press = kvsim.from_kvpress(scope["press"], name="of-a-recipe")
    rows = kvsim.sweep(trace(), [press, f"recipe:file={path}"], "20%", **ONCE)
    first, second = (rows.attention_recall[rows.policy == each] for each in rows.policy.unique())
    assert first.tolist() == second.tolist()


@pytest.mark.parametrize(
    ("fields", "to", "hint"),
    [
        ({"policy": "lru"}, "kvpress", "search with mode="),
        ({"policy": "lru", **ONCE}, "kvpress", "no press of kvpress equals lru"),
        ({"policy": "snapkv", **ONCE}, "kvpress", "SnapKVPress is snapkv:preset=code"),
        ({"policy": "knorm+protect", **ONCE}, "kvpress", "equals \\+protect"),
        ({"policy": "knorm@cake", **ONCE}, "kvpress", "equals @cake"),
        ({"policy": "knorm", **ONCE, "budget": "64"}, "kvpress", "search at a share"),
        ({"policy": "lru", "page": 4}, "lukv", "found no split"),
        ({"policy": "lru@cake"}, "lukv", "found @cake"),
        ({"policy": "lru"}, "pages", "it has no pages"),
        ({"policy": "lru", "page": 4, "budget": "64KiB"}, "pages", "depends on the model"),
        (
            {"policy": "lru", "page": 4, "budget": "30"},
            "pages",
            "whole pages of 4 tokens, found 30",
        ),
        ({"policy": "lru"}, "onnx", "expected one of kvpress, lukv, pages"),
    ],
)
def test_what_has_no_such_form_is_one_line_with_the_reason(tmp_path, fields, to, hint):
    path = written(tmp_path, **fields)
    with pytest.raises(kvsim.UsageError, match=hint) as refused:
        kvsim.export_recipe(path, to=to, output=tmp_path / "out")
    assert "\n" not in str(refused.value) and not (tmp_path / "out").exists()


@pytest.mark.parametrize("budget", ["many", "nan%", "0%", "120%", "1.5", "0", "-3", "64XB", "%"])
def test_a_budget_that_is_none_is_one_line_in_every_form(tmp_path, budget):
    path = written(tmp_path, "knorm", page=4, budget=budget, **ONCE)
    with pytest.raises(kvsim.DataError, match=r"budget: expected .* found ") as refused:
        kvsim.export_recipe(path, to="pages", output=tmp_path / "out")
    assert "\n" not in str(refused.value)
    path = written(tmp_path, "knorm", budget=budget, **ONCE)
    with pytest.raises(kvsim.DataError, match=r"budget: expected"):
        kvsim.export_recipe(path, to="kvpress", output=tmp_path / "out")


def test_the_score_of_a_page_is_one_of_three(tmp_path):
    path = written(tmp_path, page=4, page_score="median")
    with pytest.raises(kvsim.DataError, match="page_score: expected one of mean, max, min, found"):
        kvsim.export_recipe(path, to="pages", output=tmp_path / "out")


def test_the_array_of_a_split_is_written_while_it_is_the_same(tmp_path):
    shares = np.full((99, 1, 2), 0.5, np.float32)
    np.save(tmp_path / "b.npy", shares)
    path = written(tmp_path, f"lru@file:{tmp_path / 'b.npy'}")
    out = kvsim.export_recipe(path, to="lukv", output=tmp_path / "lukv.npy")
    assert np.array_equal(np.load(out), shares)
    digest = read_recipe(path).policy
    path = written(tmp_path, digest)
    np.save(tmp_path / "b.npy", shares / 2)
    with pytest.raises(kvsim.DataError, match="has changed"):
        kvsim.export_recipe(path, to="lukv", output=tmp_path / "lukv.npy")
    (tmp_path / "b.tsv").write_text("1\t2\n")
    with pytest.raises(kvsim.UsageError, match="found another form"):
        kvsim.export_recipe(
            written(tmp_path, f"lru@file:{tmp_path / 'b.tsv'}"), "lukv", tmp_path / "lukv.npy"
        )


def test_weights_of_heads_become_an_array_that_splits_as_they_do(tmp_path):
    np.save(tmp_path / "w.npy", np.array([[1.0, 3.0]]))
    path = written(tmp_path, f"lru@file:{tmp_path / 'w.npy'}", **ONCE)
    array = np.load(kvsim.export_recipe(path, to="lukv", output=tmp_path / "lukv.npy"))
    assert array.shape == (99, 1, 2)
    assert np.allclose(array.mean(axis=(1, 2)), np.arange(1, 100) / 100, atol=1e-6)
    assert array[79] == pytest.approx(np.array([[0.9, 0.7]])) and array[9, 0, 1] == 0
    specs = [f"recipe:file={path}", f"lru@file:{tmp_path / 'lukv.npy'}"]
    for budget in ("20%", "60%"):
        rows = kvsim.sweep(trace(), specs, budget, **ONCE)
        recalls = [each.attention_recall.tolist() for _, each in rows.groupby("policy")]
        assert len(recalls) == 2 and recalls[0] == recalls[1]


@pytest.mark.parametrize(
    ("budget", "expected"), [("64", {"budget_pages": 16}), ("20%", {"budget_share": 0.2})]
)
def test_pages_are_written_as_a_configuration(tmp_path, budget, expected):
    path = written(tmp_path, page=4, page_score="max", budget=budget)
    assert main([str(path), "--to", "pages", "-o", str(tmp_path / "pages.json")]) == 0
    found = json.loads((tmp_path / "pages.json").read_text())
    own = {"page_size": 4, "page_score": "max", "policy": "lru:score=cached"}
    assert found == own | {"mode": "stream", "eviction_interval": "1"} | expected


def test_the_command_ends_with_one_line(tmp_path, capsys):
    path = written(tmp_path)
    assert main([str(path), "--to", "pages", "-o", str(tmp_path / "out")]) == 2
    assert main([str(tmp_path / "none.yaml"), "--to", "pages", "-o", str(tmp_path / "out")]) == 3
    assert capsys.readouterr().err.count("\n") == 2
