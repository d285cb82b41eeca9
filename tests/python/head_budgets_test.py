"""kvsim.head_budgets: the file that the press of LU-KV reads."""

import itertools
from importlib.metadata import version
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import kvsim
from conftest import SAMPLE
from kvsim.head_budgets.__main__ import main
from learned_support import arrays_of, header_of, write

RATIOS = np.arange(1, 100) / 100


def curves_of(recalls, steps=None, **columns):
    """The table `curve` of one layer, a KV head per list of recalls at budgets 1, 2, ..."""
    rows = [
        {"layer": 0, "kv_head": head, "budget": budget, "attention_recall": recall}
        | {"steps": len(of_head) if steps is None else steps}
        for head, of_head in enumerate(recalls)
        for budget, recall in enumerate(of_head, 1)
    ]
    fixed = {"trace_id": "a", "sequence": "one", "policy": "tova:scope=head,score=cached"}
    return pd.DataFrame(rows).assign(**fixed | {"mode": "stream", "seed": 0} | columns)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("curves") / "curves.sqlite"


@pytest.fixture(scope="module")
def sample(file):
    return kvsim.curve(SAMPLE, policies="optimal;window", output=file, progress=False)


def test_the_shape_the_type_and_the_sums_are_those_of_the_press(sample):
    budgets = kvsim.head_budgets(sample, "optimal")
    assert budgets.shape == (99, 4, 4) and budgets.dtype == np.float32
    assert budgets.min() >= 0 and budgets.max() <= 1
    np.testing.assert_allclose(budgets.mean(axis=(1, 2)), RATIOS, atol=1e-6)
    # A larger budget takes nothing from any head.
    assert (np.diff(budgets, axis=0) >= 0).all()
    assert budgets[79].std() > 0.02  # heads differ


def test_no_other_split_has_more_recall():
    """All splits of 12 tokens over three heads of 20, on concave curves, one by one."""
    n = 20
    random = np.random.default_rng(3)
    gains = -np.sort(-random.random((3, n)), axis=1)
    recalls = np.cumsum(gains, axis=1) / gains.sum(axis=1, keepdims=True)
    budgets = kvsim.head_budgets(curves_of(recalls))
    kept = np.round((1 - budgets[79, 0]) * n, 6)  # 80% of 60 tokens removed
    assert kept.sum() == pytest.approx(12)
    padded = np.hstack([np.zeros((3, 1)), recalls])
    found = sum(np.interp(kept[head], np.arange(n + 1), padded[head]) for head in range(3))
    best = max(
        sum(padded[head, split[head]] for head in range(3))
        for split in itertools.product(range(n + 1), repeat=3)
        if sum(split) == 12
    )
    assert found == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("spec", ["tova", "tova:scope=head", "tova:score=cached,scope=head"])
def test_a_spec_names_its_policy_however_much_of_it_is_written(spec):
    both = pd.concat([curves_of([[0.5, 1]]), curves_of([[0.7, 1]], policy="window")])
    expected = kvsim.head_budgets(curves_of([[0.5, 1]]))
    np.testing.assert_array_equal(kvsim.head_budgets(both, spec), expected)
    with pytest.raises(kvsim.UsageError, match="there is no curve of tova:scope=layer"):
        kvsim.head_budgets(both, "tova:scope=layer")


def test_a_spec_names_its_files_as_they_are_called(tmp_path):
    header = header_of(["now", "age"])
    write(tmp_path / "m.npz", header, arrays_of(header))
    spec = f"learned:file={tmp_path / 'm.npz'}"
    rows = kvsim.sweep(SAMPLE, f"{spec};h2o", ["10%", "50%"], layers="0", progress=False)
    (canonical,) = rows.policy[rows.policy.str.startswith("learned")].unique()
    assert canonical != spec
    found = kvsim.head_budgets(rows, spec)
    np.testing.assert_array_equal(found, kvsim.head_budgets(rows, canonical))


def test_a_curve_that_is_not_concave_counts_as_its_majorant():
    """The second head gains nothing before its tenth token, which is worth waiting for."""
    late = [0.0] * 9 + [1.0] * 11
    even = [0.04 * budget for budget in range(1, 21)]
    curves = curves_of([even, late])
    budgets = kvsim.head_budgets(curves, least=0)
    np.testing.assert_allclose(1 - budgets[74, 0], [0.0, 0.5], atol=1e-3)  # 10 of 40 tokens stay
    budgets = kvsim.head_budgets(curves)  # one token of 20 is the least
    np.testing.assert_allclose(1 - budgets[74, 0], [0.05, 0.45], atol=1e-3)


def test_in_prefill_mode_shares_are_of_the_prompt():
    """A prompt of 20 of 30 tokens; all recall is in 5 tokens of one head and 20 of the other."""
    recalls = [np.minimum(np.arange(1, 31) / enough, 1) for enough in (5, 20)]
    budgets = kvsim.head_budgets(curves_of(recalls, steps=10, mode="prefill"))
    np.testing.assert_allclose(1 - budgets[49, 0], [5 / 20, 15 / 20], atol=1e-3)  # 20 of 40 stay
    np.testing.assert_allclose(1 - budgets[74, 0], [5 / 20, 5 / 20], atol=1e-3)  # 10 stay


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame[frame.kv_head != 1], "expected curves of 1 layers x 3 KV heads"),
        (lambda frame: pd.concat([frame, frame.assign(policy="window")]), "policy: expected"),
        (lambda frame: pd.concat([frame, frame.assign(seed=1)]), "seed: expected curves of one"),
        (lambda frame: frame.assign(mode="stream:page=4"), "token by token, found stream:page=4"),
    ],
)
def test_curves_that_are_not_one_models_are_refused(change, message):
    frame = curves_of([[0.5, 1.0]] * 3)
    with pytest.raises(kvsim.UsageError, match=message):
        kvsim.head_budgets(change(frame))


def test_the_trace_says_how_many_layers_and_heads_there_are(sample, tmp_path, capsys):
    whole = sample[sample.policy.str.startswith("window")]
    first = whole[whole.layer < 2]
    np.testing.assert_array_equal(
        kvsim.head_budgets(whole, trace=SAMPLE), kvsim.head_budgets(whole), strict=True
    )
    assert kvsim.head_budgets(first).shape == (99, 2, 4)
    with pytest.raises(kvsim.UsageError, match=r"of 4 layers x 4 KV heads in .* 8;"):
        kvsim.head_budgets(first, trace=kvsim.Trace(SAMPLE))
    with pytest.raises(kvsim.UsageError, match="trace: expected that of the curves, another,"):
        kvsim.head_budgets(whole.assign(trace_id="another"), trace=SAMPLE)
    few, written = tmp_path / "curves.sqlite", tmp_path / "budgets.npy"
    kvsim.curve(SAMPLE, policies="window", layers=[0, 1], output=few, progress=False)
    assert main([str(few), "-o", str(written)]) == 0
    assert "2 layers x 4 KV heads, the highest with curves" in capsys.readouterr().err
    assert main([str(few), "--trace", str(SAMPLE), "-o", str(written)]) == 2
    assert "expected curves of 4 layers x 4 KV heads" in capsys.readouterr().err
    assert main([str(few), "--trace", str(tmp_path / "none.h5"), "-o", str(written)]) == 3


def test_the_command_writes_the_file_from_a_result_file(sample, file, tmp_path, capsys):
    written = tmp_path / "budgets.npy"
    assert main([str(file), "--policy", "window", "-o", str(written)]) == 0
    expected = kvsim.head_budgets(sample, "window")
    np.testing.assert_array_equal(np.load(written, allow_pickle=False), expected, strict=True)
    assert main([str(file), "-o", str(written)]) == 2
    assert "policy: expected curves of one, found " in capsys.readouterr().err
    assert main([str(file), "--policy", "h2o", "-o", str(written)]) == 2
    assert "there is no curve of h2o; there are optimal" in capsys.readouterr().err
    assert main([str(file), "-o", str(tmp_path / "budgets.csv")]) == 2
    assert main([str(tmp_path / "none.sqlite"), "-o", str(written)]) == 3


def press_module():
    """kvpress' module of the press, whose table and reader of files the test replaces.

    They are kvpress' own affair, so a release without them skips the test.
    """
    pytest.importorskip("kvpress")
    module = pytest.importorskip("kvpress.presses.lukv_press", exc_type=ImportError)
    for name in ("BUDGET_CURVE_URLS", "load_budget_curve", "LUKVPress"):
        if not hasattr(module, name):
            pytest.skip(f"kvpress {version('kvpress')} has no lukv_press.{name}, as 0.5.5 has")
    return module


@pytest.mark.parametrize("ratio", [0.5, 0.8])
def test_the_press_of_kvpress_removes_what_the_file_says(tmp_path, monkeypatch, ratio):
    """Its own loading checks the shape; its own compression counts what it removes of 100 keys."""
    lukv_press = press_module()
    torch = pytest.importorskip("torch")
    from kvpress import KnormPress

    trace = kvsim.synth(tokens=120, layers=2, kv_heads=2, progress=False)
    curves = kvsim.curve(trace, policies="optimal", progress=False)
    np.save(tmp_path / "budgets.npy", kvsim.head_budgets(curves))
    file = str(tmp_path / "budgets.npy")
    monkeypatch.setitem(lukv_press.BUDGET_CURVE_URLS, ("tiny", "KnormPress"), file)
    monkeypatch.setattr(lukv_press, "load_budget_curve", np.load)
    config = SimpleNamespace(
        name_or_path="tiny", num_hidden_layers=2, num_key_value_heads=2, _attn_implementation="sdpa"
    )
    press = lukv_press.LUKVPress(KnormPress(), compression_ratio=ratio)
    press.post_init_from_model(SimpleNamespace(config=config))
    torch.manual_seed(0)
    removed = np.zeros((2, 2))
    for layer in range(2):
        module = SimpleNamespace(layer_idx=layer, config=config)
        keys = torch.randn(1, 2, 100, 8)
        press.compress(module, None, keys, keys, None, {})
        if module.masked_key_indices is not None:
            removed[layer] = np.bincount(module.masked_key_indices[1].numpy(), minlength=2)
    expected = np.load(file)[round(100 * ratio) - 1] * 100
    np.testing.assert_allclose(removed, expected, atol=1)
    assert removed.sum() / 400 == pytest.approx(ratio, abs=0.01)
