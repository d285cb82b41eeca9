"""Weights of layers, fitted to a running model, and the KL that a replay predicts with them."""

import numpy as np
import pandas as pd
import pytest

import kvsim
from conftest import H2O, ResultFile, comparison_of, drawing_of, drawings_of
from kvsim.closed_loop.both_loops import both_loops
from kvsim.closed_loop.prediction import rank_correlations
from kvsim.report.__main__ import main
from kvsim.report.numbers.standing import of_replay
from kvsim.report.open_loop import open_loop

WEIGHTS = np.array([0.5, 0.0, 2.0])
ERRORS = {"window": 3.0, H2O: 2.0, "random": 1.0, "lru:score=cached": 5.0}


def tables_of(texts, policies=4, weights=WEIGHTS, noise=0.0, trace="t"):
    """Both loops: projected errors at random, and the KL that they and the weights give."""
    random = np.random.default_rng(texts)
    layers, closed = [], []
    for text in range(texts):
        for policy in range(policies):
            key = {"trace_id": trace, "sequence": f"text {text}", "mode": "stream", "seed": 0}
            key |= {"policy": f"p{policy}", "budget": 8}
            errors = random.uniform(0.001, 0.01, len(weights))
            for layer, error in enumerate(errors):
                row = {"layer": layer, "num_layers": len(weights), "projected_error": error}
                layers.append(key | row | {"predicted_kl": 0.0})
            kl = errors @ weights * np.exp(noise * random.normal())
            closed.append(key | {"model_id": "m", "loop": "imposed", "kl_mean": kl})
    return {"layer_error": pd.DataFrame(layers), "closed_loop": pd.DataFrame(closed)}


def kl_of(tables):
    key = ["trace_id", "sequence", "mode", "policy", "budget", "seed"]
    return kvsim.calibrated_kl(tables).merge(tables["closed_loop"], on=key)


def test_the_weights_that_made_the_kl_are_found_again():
    tables = tables_of(texts=4)
    found = kvsim.layer_weights(tables)
    assert found.weight.to_numpy() == pytest.approx(WEIGHTS, abs=1e-3)
    assert found.share.sum() == pytest.approx(1)
    assert set(zip(found.model_id, found["mode"], found.loop)) == {("m", "stream", "imposed")}
    assert (found.texts.iloc[0], found.rows.iloc[0]) == (4, 16)
    rows = kl_of(tables)
    assert len(rows) == 16
    assert rows.calibrated_kl.to_numpy() == pytest.approx(rows.kl_mean.to_numpy(), rel=1e-2)


def test_no_other_weights_of_0_or_more_have_less_relative_error():
    tables = tables_of(texts=6, weights=np.array([0.5, 0.0, 2.0, 0.0, 0.1]), noise=0.5)
    weights = kvsim.layer_weights(tables).weight.to_numpy()
    wide = tables["layer_error"].pivot_table(
        index=["sequence", "policy"], columns="layer", values="projected_error"
    )
    kl = tables["closed_loop"].set_index(["sequence", "policy"]).kl_mean[wide.index]
    relative = wide.div(kl, axis=0).to_numpy()
    slope = relative.T @ (relative @ weights - 1)  # the conditions of Karush, Kuhn and Tucker
    assert (weights >= 0).all() and (weights > 1e-3).sum() < len(weights)
    assert slope.min() > -1e-3 and np.abs(slope * weights).max() < 1e-3


def test_a_text_is_not_judged_by_what_was_fitted_to_it():
    tables = tables_of(texts=5, noise=0.3)
    before = kl_of(tables).set_index(["sequence", "policy"]).calibrated_kl
    is_first = tables["closed_loop"].sequence == "text 0"
    tables["closed_loop"].loc[is_first, "kl_mean"] *= 10
    after = kl_of(tables).set_index(["sequence", "policy"]).calibrated_kl
    assert after["text 0"].to_numpy() == pytest.approx(before["text 0"].to_numpy())
    assert after["text 1"].mean() > before["text 1"].mean()


def test_policies_and_texts_that_never_ran_in_the_model_have_one_too():
    tables = tables_of(texts=4)
    ran = tables["closed_loop"]
    ran = ran[(ran.policy != "p0") & (ran.sequence != "text 3")]
    found = kvsim.calibrated_kl(tables | {"closed_loop": ran})
    assert set(found.policy) == {"p0", "p1", "p2", "p3"} and len(found) == 16


def test_another_file_of_the_same_model_can_give_the_weights():
    replayed = {"layer_error": tables_of(texts=2, trace="other")["layer_error"]}
    assert kvsim.calibrated_kl(replayed).empty
    found = kvsim.calibrated_kl(replayed, tables_of(texts=4))
    errors = replayed["layer_error"].pivot_table(
        index=["sequence", "policy"], columns="layer", values="projected_error"
    )
    kl = found.set_index(["sequence", "policy"]).calibrated_kl[errors.index]
    assert kl.to_numpy() == pytest.approx(errors.to_numpy() @ WEIGHTS, rel=1e-2)


def test_fewer_rows_than_layers_give_no_weights_and_the_error_says_what_makes_them():
    few = tables_of(texts=1, policies=2)
    with pytest.raises(
        kvsim.DataError, match=r"at least as many .* as it has layers.*kvsim.evaluate"
    ):
        kvsim.layer_weights(few)
    assert kvsim.calibrated_kl(few).empty
    with pytest.raises(kvsim.DataError, match=r"^calibration: expected rows of closed_loop"):
        kvsim.calibrated_kl(few, few)
    one = tables_of(texts=1)  # weights, but none from another text
    assert kvsim.calibrated_kl(one).empty
    with pytest.raises(kvsim.DataError, match="in mode stream, of other texts than text 0"):
        kvsim.calibrated_kl(one, one)
    models = tables_of(texts=2)["closed_loop"].assign(model_id="n", trace_id="u")
    other = tables_of(texts=2, trace="u")["layer_error"]
    first = tables_of(texts=2)
    two = {"closed_loop": pd.concat([first["closed_loop"], models])}
    two["layer_error"] = pd.concat([first["layer_error"], other])
    assert set(kvsim.layer_weights(two).model_id) == {"m", "n"}
    with pytest.raises(kvsim.DataError, match="of one model"):
        kvsim.calibrated_kl(one, two)


def test_losses_that_no_longer_add_up_take_no_part():
    tables = tables_of(texts=4)
    expected = kvsim.layer_weights(tables)
    for name, frame in tables.items():
        disaster = frame[frame.policy == "p0"].assign(policy="disaster")
        if "kl_mean" in frame:
            disaster["kl_mean"] = 4.0
        tables[name] = pd.concat([frame, disaster])
    pd.testing.assert_frame_equal(kvsim.layer_weights(tables), expected)
    assert "disaster" in set(kvsim.calibrated_kl(tables).policy)


def test_a_row_without_all_layers_and_a_row_without_loss_take_no_part():
    tables = tables_of(texts=4)
    layers = tables["layer_error"]
    lacking = (layers.sequence == "text 0") & (layers.policy == "p0") & (layers.layer == 1)
    tables["layer_error"] = layers[~lacking]
    full = tables["closed_loop"].policy == "p1"
    tables["closed_loop"].loc[full, "kl_mean"] = 0.0
    assert kvsim.layer_weights(tables).rows.iloc[0] == 11
    found = kvsim.calibrated_kl(tables)
    assert len(found) == 15 and ("text 0", "p0") not in set(zip(found.sequence, found.policy))


def with_model(file, texts=6):
    """Six texts; `random` has the least error, but the model says that layer 1 counts alone."""
    for text in range(texts):
        name = f"text {text}"
        file.with_errors(ERRORS, sequence=name)
        file.closed_loop([], sequence=name)
        for policy, error in ERRORS.items():
            kl = 0.1 * error + 0.01 * text
            file.closed_loop([policy], (4,), sequence=name, kl_mean=kl)
            # What tells the layers apart: layer 0 is far off where the model loses least.
            file.connection.execute(
                "UPDATE layer_error SET projected_error = ? WHERE layer = 0 AND policy = ?",
                (30 / error, policy),
            )
    file.connection.commit()
    return file


def test_the_report_ranks_by_it_where_the_file_has_rows_of_the_model(result_file):
    with_model(result_file)
    comparison = comparison_of(result_file.path)
    assert comparison.ranking.measure == "calibrated_kl"
    names = [comparison.styles[spec].label for spec in comparison.at("10%").index]
    assert names == ["random", "h2o", "window", "lru"]
    standing = of_replay(comparison)
    assert standing.finding == "random has the least calibrated KL at 10%"
    assert 0.1 < standing.rows.value["random"] < 0.2
    assert "fitted to the running model on other texts" in open_loop(comparison)
    expected = kvsim.calibrated_kl(result_file.path).groupby("policy").calibrated_kl.mean()
    shown = comparison.at("10%").calibrated_kl
    assert shown[H2O] == pytest.approx(expected[H2O])
    drawing = drawing_of(result_file.path, "calibrated-kl")
    assert "in this file. It ranks policies in this report." in drawing.caption
    assert "It ranks" not in drawing_of(result_file.path, "projected-error").caption


def test_its_correlation_is_among_those_of_the_other_metrics(result_file):
    with_model(result_file)
    rows = rank_correlations(both_loops(result_file.path)).query("outcome == 'kl_mean'")
    found = rows.set_index("metric").spearman
    assert found["calibrated_kl"] == 1 and found["projected_error"] < 0
    assert "calibrated KL" in str(drawings_of(result_file.path)["prediction"].tables)


def test_the_report_takes_the_weights_of_another_file(result_file, tmp_path, capsys):
    (tmp_path / "model").mkdir()
    calibration = with_model(ResultFile(tmp_path / "model" / "results.sqlite")).path
    result_file.with_errors(ERRORS, sequence="mine")
    assert comparison_of(result_file.path).ranking.measure == "projected_error"
    comparison = comparison_of(result_file.path, calibration=str(calibration))
    assert comparison.ranking.measure == "calibrated_kl"
    alone = tmp_path / "alone"
    alone.mkdir()
    few = ResultFile(alone / "results.sqlite").with_errors(ERRORS).path
    arguments = [str(result_file.path), "-o", str(tmp_path / "report"), "--quiet", "--calibration"]
    assert main([*arguments, str(few)]) == 3
    assert f"{few}: expected rows of closed_loop" in capsys.readouterr().err
    assert main([*arguments, str(tmp_path / "none.sqlite")]) == 3
    assert "none.sqlite: there is no such result file" in capsys.readouterr().err
