"""kvsim.refined_budgets: groups of layers divide a budget by what the running model loses."""

import numpy as np
import pandas as pd
import pytest

import kvsim
from kvsim.closed_loop import imposed
from kvsim.head_budgets.curves import between
from kvsim.head_budgets.hull import convex_minorant
from kvsim.head_budgets.refined.groups import Groups
from kvsim.head_budgets.refined.run import shares_of_groups
from record_zoo import build, tokens

LENGTH = 60
SHARES = [0.2, 0.5]
RATIOS = np.arange(1, 100) / 100
UNIFORM = np.broadcast_to(RATIOS[:, None, None], (99, 3, 2)).astype(np.float32)


@pytest.fixture(scope="module")
def model():
    return build("llama")


@pytest.fixture(scope="module")
def texts():
    return [tokens(LENGTH, seed)[0] for seed in (1, 2)]


@pytest.fixture(scope="module")
def trace(model, texts, tmp_path_factory):
    path = tmp_path_factory.mktemp("refined") / "trace.h5"
    with kvsim.recording(model, path, dtype="float32", names=["a", "b"]):
        for ids in texts:
            model(ids[None])
    return kvsim.Trace(path)


@pytest.fixture(scope="module")
def refined(model, texts, trace):
    return refine(model, texts, trace, budgets=["20%", 30])


def refine(model, texts, trace, table=UNIFORM, budgets=(), shares=SHARES, **options):
    options = dict(names=["a", "b"], trace=trace, progress=False, groups=3) | options
    return kvsim.refined_budgets(model, texts, "h2o", table, budgets, shares=shares, **options)


def test_a_group_of_one_layer_loses_what_that_layer_alone_does(refined, model, texts, trace):
    """60 tokens and 3 layers come to whole budgets: 44 and 50 per head in the mean."""
    alone = kvsim.layer_interaction(model, texts, "h2o", [12, 30], names=["a", "b"], trace=trace)
    expected = alone.groupby(["layer", "budget"]).kl_alone.mean()
    assert refined.groups.share.tolist() == pytest.approx(SHARES * 3)
    assert refined.groups.kl.to_numpy() == pytest.approx(expected.to_numpy(), abs=2e-5)
    assert refined.groups.last_layer.tolist() == [0, 0, 1, 1, 2, 2]


def test_the_total_is_kept_and_no_other_split_of_groups_loses_less(model, texts, trace):
    found = refine(model, texts[0], trace, names=["a"])
    table = found.budgets
    assert table.dtype == np.float32 and table.shape == (99, 3, 2)
    np.testing.assert_allclose(table.mean(axis=(1, 2)), RATIOS, atol=1e-6)
    assert (np.diff(table, axis=0) >= -1e-6).all()
    assert table[79] == pytest.approx(np.full((3, 2), 0.8), abs=1e-6)  # the smallest share of all
    grid = np.arange(200, 1001, 5) / 1000
    hulls = [
        convex_minorant(between(grid, np.append(rows.share, 1), np.append(rows.kl, 0)))
        for _, rows in found.groups.groupby("group")
    ]
    first, second = np.meshgrid(grid, grid)
    third = 1.2 - first - second  # 40% of three groups
    inside = (third > 0.2 - 1e-9) & (third < 1 + 1e-9)
    total = sum(np.interp(each, grid, hull) for each, hull in zip((first, second, third), hulls))
    kept = 1 - table[59].mean(axis=1)
    loss = sum(np.interp(each, grid, hull) for each, hull in zip(kept, hulls))
    assert loss <= total[inside].min() + 1e-3 * total.max()
    assert kept.std() > 0.05


def test_the_totals_are_those_of_the_model_and_of_the_groups(
    refined, model, texts, trace, tmp_path
):
    totals = refined.totals
    assert totals.table.tolist() == ["given"] * 2 + ["refined"] * 2
    np.save(tmp_path / "t.npy", refined.budgets)
    spec, names = f"h2o@file:{tmp_path / 't.npy'}", ["a", "b"]
    rows = kvsim.evaluate(model, texts, spec, 30, names=names, trace=trace, progress=False)
    (half,) = totals[(totals.table == "refined") & (totals.budget_request == "30")].itertuples()
    assert half.kl_mean == pytest.approx(rows.kl_mean.mean(), abs=1e-6)
    kl = refined.groups.set_index(["group", "share"]).kl
    (given,) = totals[(totals.table == "given") & (totals.budget_request == "30")].itertuples()
    assert given.kl_sum == pytest.approx(kl.loc[:, 0.5].sum(), rel=1e-3)
    assert half.kl_sum <= given.kl_sum


def test_within_a_group_heads_keep_what_the_table_says_at_its_share(model, texts, trace, tmp_path):
    """Head 0 of each layer keeps thrice what head 1 does, up to all. A table is a file, too."""
    kept = np.stack([np.minimum(1.5 * (1 - RATIOS), 1), np.maximum(0.5 - RATIOS, 0)], axis=-1)
    kept[:, 1] = 2 * (1 - RATIOS) - kept[:, 0]
    table = np.broadcast_to(1 - kept[:, None], (99, 3, 2)).astype(np.float32)
    np.save(tmp_path / "given.npy", table)
    found = refine(model, texts, trace, tmp_path / "given.npy", groups=2)
    assert found.groups.last_layer.tolist() == [1, 1, 2, 2] and found.totals.empty
    np.testing.assert_allclose(found.budgets.mean(axis=(1, 2)), RATIOS, atol=1e-6)
    for layer in range(3):
        mean = 1 - found.budgets[:, layer].mean(axis=1)
        first = np.minimum(1.5 * mean, 1)
        np.testing.assert_allclose(1 - found.budgets[:, layer, 0], first, atol=4e-3)
    np.testing.assert_allclose(found.budgets[:, 0], found.budgets[:, 1])


def test_the_same_call_on_the_same_file_runs_the_model_no_more(
    model, texts, trace, tmp_path, monkeypatch
):
    output = tmp_path / "results.sqlite"
    first = refine(model, texts, trace, budgets="40%", output=output)
    assert len(list((tmp_path / "results.sqlite.tables").glob("*.npy"))) == 3 * 2 + 2
    monkeypatch.setattr(imposed, "forward", None)
    again = refine(model, texts, trace, budgets="40%", output=output)
    np.testing.assert_array_equal(first.budgets, again.budgets)
    pd.testing.assert_frame_equal(first.totals, again.totals)


def test_in_prefill_mode_shares_are_of_the_prompt(model, texts, tmp_path):
    """A prompt of 40 tokens of 60, and a model without a trace at hand. What all heads lose with
    room for the prompt alone is no group's loss."""
    how = dict(mode="prefill", prompt_length=40, names=["a"], progress=False)
    found = refine(model, texts[0], None, budgets="50%", shares=[0.2], **how)
    assert found.groups.share.tolist() == pytest.approx([0.2] * 3, abs=0.01)
    groups = Groups(UNIFORM, 3)
    specs = [f"h2o@file:{tmp_path / group.name}.npy" for group in groups]
    for group in groups:
        np.save(tmp_path / f"{group.name}.npy", groups.alone(group, 0.2))
    mean = f"{100 * (1 + 1 + 0.2) / 3:.6f}%"
    rows = kvsim.evaluate(model, texts[0], specs, mean, **how).set_index("policy").kl_mean
    (base,) = kvsim.evaluate(model, texts[0], "h2o", "100%", **how).kl_mean
    lost = [rows[rows.index.str.contains(f"{group.name}.npy")].item() - base for group in groups]
    assert base > 1e-4
    assert found.groups.kl.to_numpy() == pytest.approx(lost, abs=1e-6)
    np.testing.assert_allclose(found.budgets.mean(axis=(1, 2)), RATIOS, atol=1e-6)
    assert np.isfinite(found.totals.kl_sum).all()


def test_groups_of_unequal_size_share_the_total_where_it_spares_most():
    """Two heads, one in the next layer, none in the last: their mean is what counts."""
    random = np.random.default_rng(4)
    table = np.sort(random.random((99, 3, 2)), axis=0)
    table[:, 1, 1] = table[:, 2] = np.nan
    groups = Groups(table, 2)
    assert [group.heads for group in groups] == [2, 1] and groups.heads == 3
    for group in groups:
        for share in (0.05, 0.31, 0.9):
            assert np.nanmean(groups.kept_by(group, share)) == pytest.approx(share)
    grid = np.arange(1001) / 1000
    curves = np.array([3 * (1 - grid) ** 2, (1 - grid) ** 4])
    shares = shares_of_groups(curves, groups)
    np.testing.assert_allclose(shares @ [2, 1], 3 * (1 - RATIOS), atol=1e-9)
    first = np.linspace(0.1, 0.9, 8001)  # of the first group, where 60% are removed
    second = 1.2 - 2 * first
    losses = 3 * (1 - first) ** 2 + (1 - second) ** 4
    best = losses[(second >= 0) & (second <= 1)].min()
    found = 3 * (1 - shares[59, 0]) ** 2 + (1 - shares[59, 1]) ** 4
    assert found == pytest.approx(best, abs=1e-5)
    made = groups.table(shares)
    np.testing.assert_allclose(np.nanmean(made, axis=(1, 2)), RATIOS, atol=1e-6)
    np.testing.assert_array_equal(np.isnan(made), np.isnan(table))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": 4}, "groups: expected 1 to 3, the layers with a cache, found 4"),
        ({"groups": "3"}, "groups: expected 1 to 3, .* found '3'"),
        ({"shares": 0.5}, "shares: expected different numbers"),
        ({"shares": ["5%"]}, "shares: expected different numbers"),
        ({"shares": [0.5, 1.0]}, "shares: expected different numbers above 0 and below 1"),
        ({"table": UNIFORM[:5]}, r"table: expected numbers \[99, layers, KV heads\]"),
        ({"table": UNIFORM[::-1]}, "no less at a higher ratio"),
        ({"loop": "adaptive"}, "loop: expected options tokenizer, names, "),
    ],
)
def test_what_contradicts_itself_is_refused(model, texts, trace, change, message):
    with pytest.raises(kvsim.UsageError, match=message):
        refine(model, texts, trace, **change)


@pytest.mark.parametrize("policy", ["h2o@adaptive", "h2o;tova", ["h2o", "tova"], []])
def test_what_is_not_one_policy_without_a_split_is_refused(model, texts, policy):
    with pytest.raises(kvsim.UsageError, match="policy: expected one policy without @, found "):
        kvsim.refined_budgets(model, texts, policy, UNIFORM)


def test_a_folder_that_cannot_be_made_is_named(model, texts, trace, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(kvsim.KvsimError, match=r"^output: .*\.npy: Not a directory$"):
        refine(model, texts, trace, output=tmp_path / "file" / "results.sqlite")


def test_a_file_that_is_no_table_is_said(model, texts, trace, tmp_path):
    (tmp_path / "no.npy").write_text("no")
    for name in ("no.npy", "none.npy"):
        with pytest.raises(kvsim.DataError, match=f"{name}: expected a file .npy of head_budgets"):
            refine(model, texts, trace, tmp_path / name)
