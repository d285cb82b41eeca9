"""What is said of how alike a replay and the running model rank policies."""

import numpy as np
import pandas as pd
import pytest

import kvsim
from conftest import H2O
from kvsim.bootstrap import Samples
from kvsim.closed_loop.both_loops import both_loops
from kvsim.closed_loop.prediction import ALL_BUDGETS, rank_correlations, spearman

SPECS = ["window", "sink:sinks=4,positions=text", H2O, "tova:scope=head,score=cached", "random"]


def tables_of(recall, kl, budgets=(8, 16), units=2, **closed):
    """Tables of texts x policies: `recall` and `kl` [texts, policies], the same at all budgets."""
    replay, loop = [], []
    for text, (recalls, kls) in enumerate(zip(recall, kl)):
        for spec, share, nats in zip(SPECS, recalls, kls):
            for budget in budgets:
                key = {
                    "trace_id": "t", "sequence": f"text {text}", "policy": spec, "budget": budget,
                    "mode": "stream", "seed": 0, "budget_request": f"{budget}",
                }  # fmt: skip
                for head in range(units):
                    off = 0.1 * (head - (units - 1) / 2)  # the mean over units is `share`
                    replay.append(key | {"layer": 0, "kv_head": head} | measures(share + off))
                row = {"model_id": "m", "loop": "imposed", "kl_mean": nats / budget}
                row |= {"delta_nll": -nats, "answers": 4, "answers_right": 4 * (nats < 0.75)}
                loop.append(key | row | {"kept_overlap": 1.0} | closed)
    return {"replay": pd.DataFrame(replay), "closed_loop": pd.DataFrame(loop)}


def measures(recall):
    return {"attention_recall": recall, "miss_rate": 1 - recall, "output_error_mean": recall**2}


ORDER = np.array([0.1, 0.2, 0.3, 0.4, 0.5])


def row_of(frame, **wanted):
    for name, value in wanted.items():
        frame = frame[frame[name] == value]
    assert len(frame) == 1
    return frame.iloc[0]


def test_the_frame_of_both_loops_gives_what_its_tables_give():
    tables = tables_of([ORDER] * 5, [1 - ORDER] * 5)
    of_frame = rank_correlations(both_loops(tables))
    pd.testing.assert_frame_equal(of_frame, rank_correlations(tables))


def test_more_recall_and_less_kl_is_plus_one_and_fewer_misses_too():
    frame = rank_correlations(tables_of([ORDER] * 5, [1 - ORDER] * 5))
    row = row_of(frame, budget="8", metric="attention_recall", outcome="kl_mean")
    assert row.spearman == row.low == row.high == pytest.approx(1)
    assert (row.texts, row.points, row.says) == (5, 5, "ranks better than chance")
    assert row_of(frame, budget="8", metric="miss_rate", outcome="kl_mean").spearman == 1
    # Here the error grows with recall, and the delta NLL falls where the KL rises.
    row = row_of(frame, budget="8", metric="output_error_mean", outcome="kl_mean")
    assert row.spearman == -1 and row.says == "ranks worse than chance"
    row = row_of(frame, budget="16", metric="attention_recall", outcome="delta_nll")
    assert row.spearman == -1
    share = row_of(frame, budget="8", metric="attention_recall", outcome="answers_share")
    ranks = [1.5, 1.5, 4, 4, 4], [1, 2, 3, 4, 5]  # two of five answer nothing
    assert share.spearman == pytest.approx(np.corrcoef(ranks)[0, 1]) and share.texts == 5


def test_over_all_budgets_their_points_are_ranked_together():
    frame = rank_correlations(tables_of([ORDER] * 2, [1 - ORDER] * 2))
    assert list(frame.budget.unique()) == ["8", "16", ALL_BUDGETS]
    row = row_of(frame, budget=ALL_BUDGETS, metric="attention_recall", outcome="kl_mean")
    recall, kl = np.repeat(ORDER, 2), (np.repeat(1 - ORDER, 2) / np.tile([8, 16], 5)).round(6)
    ranks = [pd.Series(side).rank() for side in (recall, -kl)]
    assert row.spearman == pytest.approx(np.corrcoef(ranks)[0, 1]) and row.points == 10
    assert ALL_BUDGETS not in set(rank_correlations(tables_of([ORDER], [ORDER], (8,))).budget)


def test_it_is_the_mean_over_texts_and_the_interval_that_of_the_bootstrap_of_kvsim():
    random = np.random.default_rng(4)
    kl = random.random((7, 5))
    frame = rank_correlations(tables_of([ORDER] * 7, kl), seed=3)
    row = row_of(frame, budget="8", metric="attention_recall", outcome="kl_mean")
    places = np.argsort(np.argsort(-kl.round(6), axis=1), axis=1) + 1
    each = [np.corrcoef(ranks, [1, 2, 3, 4, 5])[0, 1] for ranks in places]
    assert row.spearman == pytest.approx(np.mean(each)) and row.texts == 7
    units = pd.DataFrame({"sequence": list("abcdefg"), "layer": 0, "kv_head": 0})
    samples = Samples(units, seed=3)
    low, high = samples.limits(samples.drawn_means(np.array([each])))
    assert (row.low, row.high) == (pytest.approx(low[0]), pytest.approx(high[0]))


@pytest.mark.parametrize(
    "texts, says", [(1, "one text: no interval"), (4, "too few texts (4) to tell")]
)
def test_few_texts_give_no_verdict(texts, says):
    frame = rank_correlations(tables_of([ORDER] * texts, [1 - ORDER] * texts))
    row = row_of(frame, budget="8", metric="attention_recall", outcome="kl_mean")
    assert row.says == says and np.isnan(row.low) == np.isnan(row.high) == (texts == 1)


def test_texts_on_which_all_policies_are_alike_do_not_count():
    kl = [1 - ORDER] * 5 + [np.full(5, 0.3)]
    frame = rank_correlations(tables_of([ORDER] * 6, kl))
    assert row_of(frame, budget="8", metric="miss_rate", outcome="kl_mean").texts == 5
    frame = rank_correlations(tables_of([ORDER], [np.full(5, 0.3)]))
    row = row_of(frame, budget="8", metric="miss_rate", outcome="kl_mean")
    assert np.isnan(row.spearman) and "no text ranks them" in row.says


def test_policies_are_chosen_by_plain_names_and_full_takes_no_part():
    tables = tables_of([ORDER], [1 - ORDER])
    for name, table in tables.items():
        more = [table.replace({"policy": {H2O: spec}}) for spec in (f"{H2O}@pyramid", "full")]
        tables[name] = pd.concat(
            [table, *[m[m.policy.isin([f"{H2O}@pyramid", "full"])] for m in more]]
        )
    key = {"budget": "8", "metric": "miss_rate", "outcome": "kl_mean"}
    assert row_of(rank_correlations(tables), **key).points == 6
    assert row_of(rank_correlations(tables, [SPECS[0], "h2o", "tova"]), **key).points == 3
    assert row_of(rank_correlations(tables, ["h2o", "tova", "full"]), **key).points == 3
    with pytest.raises(kvsim.UsageError, match="no rows of lru in both loops; there are full, h2o"):
        rank_correlations(tables, ["window", "lru"])
    with pytest.raises(kvsim.UsageError, match="expected a list"):
        rank_correlations(tables, "window")


def test_modes_loops_and_models_are_told_apart():
    tables = tables_of([ORDER], [1 - ORDER])
    adaptive = tables["closed_loop"].assign(loop="adaptive", kl_mean=ORDER.repeat(2))
    tables["closed_loop"] = pd.concat([tables["closed_loop"], adaptive])
    frame = rank_correlations(tables)
    key = {"budget": "8", "metric": "attention_recall", "outcome": "kl_mean"}
    assert row_of(frame, loop="imposed", **key).spearman == 1
    assert row_of(frame, loop="adaptive", **key).spearman == -1


def test_seeds_are_averaged_before_they_are_ranked():
    tables = tables_of([ORDER], [1 - ORDER])
    for name, column in (("replay", "attention_recall"), ("closed_loop", "kl_mean")):
        other = tables[name].assign(seed=1, **{column: tables[name][column] + 0.2})
        tables[name] = pd.concat([tables[name], other[other.policy == "random"]])
    rows = both_loops(tables)
    assert len(rows) == 10
    random = rows[(rows.policy == "random") & (rows.budget == 8)].iloc[0]
    assert random.attention_recall == pytest.approx(0.6)
    assert random.kl_mean == pytest.approx(0.5 / 8 + 0.1)


def test_policies_with_fewer_units_than_others_are_left_out_and_named():
    tables = tables_of([ORDER], [1 - ORDER])
    replay = tables["replay"]
    tables["replay"] = replay[(replay.policy != "random") | (replay.kv_head == 0)]
    frame = rank_correlations(tables)
    assert set(frame[frame.budget == "8"].points) == {4}
    assert frame.attrs["notes"][0].endswith("than of other policies: random.")
    assert "10 rows" not in frame.attrs["notes"][1] and "(random)" in frame.attrs["notes"][1]


def test_further_metrics_take_part_where_the_file_has_them():
    tables = tables_of([ORDER], [1 - ORDER])
    tables["replay"]["output_error_sq"] = 1e-9 * (1 - tables["replay"]["attention_recall"])
    key = ["trace_id", "sequence", "policy", "budget", "mode", "seed"]
    layers = tables["replay"].drop_duplicates(key)[key]
    halves = [
        layers.assign(layer=layer, projected_error=0.5, predicted_kl=1.0, num_layers=2)
        for layer in (0, 1)
    ]
    halves[1].loc[halves[1].policy == "window", "projected_error"] = 0.7
    halves[1].loc[halves[1].policy == SPECS[3], "predicted_kl"] = np.nan
    tables["layer_error"] = pd.concat(halves)
    rows = both_loops(tables).set_index(["policy", "budget"])
    assert rows.projected_error[("window", 8)] == pytest.approx(1.2)
    assert rows.predicted_kl[("window", 8)] == 2 and np.isnan(rows.predicted_kl[(SPECS[3], 8)])
    frame = rank_correlations(tables)
    key = {"budget": "8", "outcome": "kl_mean"}
    assert row_of(frame, metric="output_error_sq", **key).spearman == 1
    assert row_of(frame, metric="projected_error", **key).spearman == pytest.approx(2**-0.5)


def test_what_is_missing_is_said_with_what_writes_it(result_file):
    result_file.sweep()
    with pytest.raises(kvsim.DataError, match=r"found no closed_loop.*python -m kvsim.evaluate"):
        rank_correlations(result_file.path)
    result_file.closed_loop(budgets=(5,))
    with pytest.raises(kvsim.DataError, match=r"found none.*python -m kvsim.evaluate"):
        rank_correlations(kvsim.load(result_file.path))


def test_a_file_is_read_as_its_tables_are(result_file):
    result_file.sweep().closed_loop()
    frame = rank_correlations(result_file.path)
    row = row_of(frame, budget="10%", metric="attention_recall", outcome="kl_mean")
    assert 0.5 < row.spearman < 1 and row.points == 5
    assert list(frame.budget.unique()) == ["10%", "20%", ALL_BUDGETS]


def test_ranks_share_ties_and_constants_and_two_values_rank_nothing():
    columns = pd.DataFrame({"a": [1.0, 2, 2, 3], "b": [1.0, 2, 3, 4], "c": [5.0] * 4})
    found = spearman(columns)
    assert found.at["a", "b"] == pytest.approx(0.9486833) and np.isnan(found.at["a", "c"])
    columns.loc[:1, "b"] = np.nan
    assert np.isnan(spearman(columns).at["a", "b"])
    columns.loc[1, "b"] = 2  # ranked among the rows that have both
    assert spearman(columns).at["a", "b"] == pytest.approx(3**0.5 / 2)
