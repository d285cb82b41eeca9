"""kvsim.head_budgets of a sweep: the best split of a model's budget by a measured loss."""

import itertools

import numpy as np
import pandas as pd
import pytest

import kvsim
from conftest import SAMPLE
from kvsim.head_budgets.__main__ import main
from kvsim.head_budgets.curves import between
from kvsim.head_budgets.hull import convex_minorant, parts_by_gain

TOKENS = 20
LAYER_KEY = ["trace_id", "sequence", "layer", "policy", "budget", "mode", "seed"]


def sweep_of(losses, budgets, **columns):
    """The table `replay` of one layer, a KV head per list of losses at these budgets."""
    rows = [
        {"layer": 0, "kv_head": head, "budget": budget, "predicted_kl": loss}
        | {"attention_recall": 1 - loss, "output_error_sq": loss, "budget_request": str(budget)}
        for head, of_head in enumerate(losses)
        for budget, loss in zip(budgets, of_head, strict=True)
    ]
    fixed = {"trace_id": "a", "sequence": "one", "policy": "h2o:recent=0.5", "steps": TOKENS}
    return pd.DataFrame(rows).assign(**fixed | {"mode": "stream", "seed": 0} | columns)


def kept(budgets, ratio):
    """Tokens of TOKENS that the heads of layer 0 keep."""
    return np.round((1 - budgets[ratio - 1, 0].astype(float)) * TOKENS, 2)


def best_of_all(curves, total, least=0):
    """The least sum of losses of all splits, one by one."""
    heads, most = len(curves), curves.shape[1] - 1
    splits = itertools.product(range(least, most + 1), repeat=heads - 1)
    return min(
        sum(curves[head, part] for head, part in enumerate([*split, total - sum(split)]))
        for split in splits
        if least <= total - sum(split) <= most
    )


@pytest.mark.parametrize("seed", range(5))
def test_no_split_of_all_loses_less_to_the_step(seed):
    """Three heads of 12 parts: all splits of all totals, on the hulls of any curves."""
    random = np.random.default_rng(seed)
    curves = np.hstack([random.random((3, 12)), np.zeros((3, 1))])
    hulls = np.array([convex_minorant(curve) for curve in curves])
    splits = parts_by_gain(curves, 0, np.arange(37))
    for total, split in enumerate(splits):
        assert split.sum() == total and split.max() <= 12
        found = hulls[range(3), split].sum()
        assert found == pytest.approx(best_of_all(hulls, total), abs=1e-12)
        # Where every head stands at a corner of its hull, no split of the curves is better.
        if np.allclose(hulls[range(3), split], curves[range(3), split]):
            assert found == pytest.approx(best_of_all(curves, total), abs=1e-12)


def test_a_least_share_holds_and_what_is_left_is_split_best():
    random = np.random.default_rng(8)
    curves = np.hstack([random.random((3, 12)), np.zeros((3, 1))])
    hulls = np.full((3, 13), np.inf)
    for hull, curve in zip(hulls, curves):
        hull[3:] = convex_minorant(curve[3:])
    for total, split in zip(range(9, 37), parts_by_gain(curves, 3, np.arange(9, 37))):
        assert split.min() >= 3 and split.sum() == total
        found = hulls[range(3), split].sum()
        assert found == pytest.approx(best_of_all(hulls, total, least=3), abs=1e-12)
    assert parts_by_gain(curves, 3, np.array([4])).tolist() == [[2, 1, 1]]


def test_the_hull_is_below_the_curve_convex_and_touches_its_ends():
    random = np.random.default_rng(2)
    values = np.append(np.sort(random.random(1000))[::-1], 0)
    hull = convex_minorant(values)
    assert (hull <= values + 1e-12).all() and (np.diff(hull, 2) >= -1e-12).all()
    assert hull[0] == values[0] and hull[-1] == 0
    np.testing.assert_allclose(convex_minorant(hull), hull)


def test_between_losses_above_none_the_logarithm_is_linear():
    places, measured = np.arange(7.0), np.array([1.0, 3.0, 5.0])
    found = between(places, measured, np.array([0.8, 0.2, 0.0]))
    assert np.isnan(found[0]) and found[1:].tolist() == pytest.approx([0.8, 0.4, 0.2, 0.1, 0, 0])


def test_a_sweep_is_split_by_its_losses_and_a_full_cache_loses_nothing():
    """Head 1 loses nothing above 5 tokens, head 0 loses as long as a token is missing."""
    frame = sweep_of([[0.8, 0.75, 0.5], [0.9, 0.0, 0.0]], [4, 5, 10])
    budgets = kvsim.head_budgets(frame, metric="predicted_kl")
    np.testing.assert_allclose(budgets.mean(axis=(1, 2)), np.arange(1, 100) / 100, atol=1e-6)
    assert kept(budgets, 25).tolist() == [20, 10]  # 30 of 40 stay: 5 of head 1 are to spare
    assert kept(budgets, 50).tolist() == [15, 5]
    assert kept(budgets, 77).tolist() == [4.2, 5]


def test_no_head_falls_below_the_smallest_budget_that_was_measured():
    frame = sweep_of([[0.1, 0.05], [0.9, 0.5]], [4, 10])
    budgets = kvsim.head_budgets(frame, metric="output_error_sq")
    assert kept(budgets, 60).tolist() == [4, 12]
    assert kept(budgets, 90).tolist() == [2, 2]  # 2 tokens each do not reach 4
    # Of attention all is lost without tokens: below 4 the curve is known.
    assert kept(kvsim.head_budgets(frame), 90).tolist() == [3, 1]
    for least in (6, "30%", 0.3, "6"):
        assert kept(kvsim.head_budgets(frame, least=least), 60).tolist() == [6, 10]


def test_the_projected_error_of_a_layer_is_parted_by_the_errors_of_its_heads():
    """Layer 1 loses more, by head 0 of it; in layer 0 both heads lose the same."""
    losses = [[0.5, 0.2]] * 2, [[0.9, 0.3], [0.3, 0.1]]
    layers = [sweep_of(each, [4, 10]).assign(layer=layer) for layer, each in enumerate(losses)]
    replay = pd.concat(layers, ignore_index=True)
    errors = replay[replay.kv_head == 0][LAYER_KEY]
    errors = errors.assign(projected_error=np.where(errors.layer == 0, 1.0, 8.0) / errors.budget)
    tables = {"replay": replay.sample(frac=1, random_state=0), "layer_error": errors}
    budgets = kvsim.head_budgets(tables, metric="projected_error")
    own = replay.output_error_sq / replay.groupby(LAYER_KEY).output_error_sq.transform("sum")
    total = np.where(replay.layer == 0, 1.0, 8.0) / replay.budget
    same = kvsim.head_budgets(replay.assign(predicted_kl=own * total), metric="predicted_kl")
    np.testing.assert_allclose(budgets, same, atol=1e-6)
    np.testing.assert_allclose(budgets[54], [[0.8, 0.8], [0.0, 0.6]], atol=1e-6)


def test_in_prefill_mode_the_trace_says_what_shares_are_of(tmp_path):
    rows = kvsim.sweep(SAMPLE, "window", [24, 48, 96, 192], mode="prefill", progress=False)
    with pytest.raises(kvsim.UsageError, match="trace: expected the trace of the rows, whose mode"):
        kvsim.head_budgets(rows)
    budgets = kvsim.head_budgets(rows, metric="output_error_sq", trace=SAMPLE)
    np.testing.assert_allclose(budgets.mean(axis=(1, 2)), np.arange(1, 100) / 100, atol=1e-6)
    assert budgets.max() < 1 and budgets[79].std() > 0.02


def test_curves_of_another_policy_do_not_hide_a_sweep():
    frame = sweep_of([[0.1, 0.05], [0.9, 0.5]], [4, 10])
    curve = frame.drop(columns="budget_request").assign(policy="window")
    found = kvsim.head_budgets({"curve": curve, "replay": frame}, "h2o")
    np.testing.assert_array_equal(found, kvsim.head_budgets(frame))


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda frame: frame, {"metric": "recall"}, "metric: expected attention_loss, "),
        (lambda frame: frame, {"metric": "projected_error"}, "tables replay and layer_error"),
        (lambda frame: {"replay": frame}, {"metric": "projected_error"}, "tables with layer_error"),
        (lambda frame: frame.iloc[:0], {}, "losses: expected rows, found none"),
        (lambda frame: None, {}, "losses: expected a frame, .* found NoneType"),
        (lambda frame: frame.iloc[1:], {}, "expected 2 budgets of each head .* finish the sweep"),
        (lambda frame: frame.assign(policy="h2o@adaptive"), {}, "sweep it without @"),
        (lambda frame: frame.assign(steps=4), {"metric": "predicted_kl"}, "budgets below the leng"),
        (lambda frame: frame, {"least": "half"}, "least: expected tokens .* found 'half'"),
        (lambda frame: frame, {"least": TOKENS + 1}, "least: expected tokens .* found 21"),
        (lambda frame: frame, {"least": True}, "least: expected tokens .* found True"),
    ],
)
def test_what_cannot_be_split_is_refused(change, options, message):
    frame = sweep_of([[0.5, 0.2]] * 2, [4, 10])
    with pytest.raises(kvsim.UsageError, match=message):
        kvsim.head_budgets(change(frame), **options)


def test_a_metric_that_was_not_measured_is_said():
    frame = sweep_of([[0.5, np.nan]] * 2, [4, 10])
    with pytest.raises(kvsim.DataError, match=r"found 2 of 4 without; .*--also output_score_grad"):
        kvsim.head_budgets(frame, metric="predicted_kl")


def test_the_command_takes_a_sweep_with_metric_and_least(tmp_path, capsys):
    file, written = tmp_path / "sweep.sqlite", tmp_path / "budgets.npy"
    kvsim.sweep(SAMPLE, "window", ["10%", "30%"], output=file, progress=False)
    options = ["--metric", "output_error_sq", "--least", "12%", "-o", str(written)]
    assert main([str(file), *options]) == 0
    expected = kvsim.head_budgets(file, metric="output_error_sq", least="12%")
    np.testing.assert_array_equal(np.load(written), expected, strict=True)
    assert expected[79].max() <= np.float32(0.88)
    for metric in ("predicted_kl", "projected_error"):
        assert main([str(file), "--metric", metric, "-o", str(written)]) == 0
        assert abs(np.load(written)[79].mean() - 0.8) < 1e-6
    assert main([str(file), "--metric", "recall", "-o", str(written)]) == 2
    assert "metric: expected attention_loss, " in capsys.readouterr().err
    assert main([str(file), "--least", "-3", "-o", str(written)]) == 2
