"""By what the report ranks policies, and what it shows of errors and nats."""

import re

import numpy as np
import pytest

from conftest import H2O, ResultFile, comparison_of, drawing_of, drawings_of
from drawn_figures import figure_of, in_shapes, missing_of, require_named_axes
from kvsim.report.figures import heat
from kvsim.report.numbers.averages import OPTIMAL
from kvsim.report.numbers.standing import of_replay

TOVA = "tova:scope=head,score=cached"
ERRORS = {"window": 3.0, H2O: 2.0, "random": 1.0, OPTIMAL: 1.5, TOVA: 9.0}


def test_the_projected_error_ranks_where_the_file_has_it(result_file):
    comparison = comparison_of(result_file.with_errors(ERRORS, layers=8).path)
    assert comparison.ranking.measure == "projected_error"
    names = [comparison.styles[spec].label for spec in comparison.at("10%").index]
    assert names == ["random", "optimal", "h2o", "window", "tova"]
    drawing = drawings_of(result_file.path)["overview"]
    assert drawing.finding == "random has the least projected error at 10%"
    (table,) = drawing.tables
    assert table.head == ("policy", "projected error", "more than random", "verdict")
    # Eight layers of 1 + 0.1 layer.
    cells = {row[0][0]: (row[1][0], row[2][0], row[0][1]) for row in table.rows}
    assert cells["random"] == ("10.8", "–", "")
    assert cells["h2o"] == ("21.6", "+10.8", "")
    assert cells["optimal"] == ("16.2", "+5.40", "does not compete")
    assert cells["window"] == ("32.4", "+21.6", "")
    assert all(re.fullmatch(r"\[[\d.]+, [\d.]+\]", row[2][1]) for row in table.rows[1:])


def test_the_squared_error_ranks_where_a_layer_has_no_projected_error(result_file):
    result_file.with_errors(ERRORS)
    result_file.connection.execute("DELETE FROM layer_error WHERE layer = 1")
    result_file.connection.commit()
    comparison = comparison_of(result_file.path)
    assert comparison.ranking.measure == "output_error_sq"
    assert of_replay(comparison).ranking.best == "least squared output error"
    drawn = drawings_of(result_file.path)
    assert list(drawn)[1:3] == ["squared-error", "predicted-kl"]
    assert "projected-error" not in drawn


def test_sums_over_layers_and_heads_are_those_of_a_text(result_file):
    for text in range(6):
        errors = {name: (1 + 0.2 * text) * error for name, error in ERRORS.items()}
        result_file.with_errors(errors, layers=3, sequence=f"text {text}")
    comparison = comparison_of(result_file.path)
    row = comparison.means.loc[(H2O, "10%")]
    scale = 2.0 * np.mean([1 + 0.2 * text for text in range(6)])
    assert row.projected_error == pytest.approx(scale * (1 + 1.1 + 1.2))
    assert row.predicted_kl == pytest.approx(scale * 0.01 * (1 + 2 + 3) * 2)
    assert row.projected_error_low < row.projected_error < row.projected_error_high
    assert comparison.sample_name("projected_error") == "sequences"
    assert comparison.intervals_of("projected_error").samples.count == 6


def test_few_texts_are_sampled_by_layers(result_file):
    comparison = comparison_of(result_file.with_errors(ERRORS, layers=7).path)
    assert comparison.sample_name("projected_error") == "layers"
    assert "mean over 7 layers" in drawing_of(result_file.path, "projected-error").caption
    assert "mean over 14 units" in drawing_of(result_file.path, "recall").caption


@pytest.fixture(scope="module")
def drawings(tmp_path_factory):
    file = ResultFile(tmp_path_factory.mktemp("ranking") / "results.sqlite")
    return drawings_of(file.with_errors(ERRORS, budget=4).with_errors(ERRORS, budget=8).path)


@in_shapes(["projected-error", "predicted-kl", "predicted-heads"])
def test_axes_are_named_with_units_and_nothing_is_cut(drawings, name, shape):
    require_named_axes(figure_of(drawings[name], shape=shape))


def test_maps_show_nats_per_head_and_their_sum_and_what_is_indicative_only(result_file):
    result_file.with_errors(ERRORS)
    comparison, drawing = (f(result_file.path) for f in (comparison_of, drawings_of))
    drawing = drawing["predicted-heads"]
    total = {spec: 0.06 * error for spec, error in ERRORS.items()}
    assert f"h2o: {total[H2O]:.3g}" in drawing.alt and "tova: 0.54" in drawing.alt
    assert "above 0.3 nats per token is indicative only" in drawing.caption
    assert drawing.caption.endswith("local: tova.")
    cells = heat._values(comparison, H2O, "predicted_kl")
    assert cells == pytest.approx(np.array([[0.02, 0.02], [0.04, 0.04]]))
    moving = drawing.explore["data"]
    nats = [list(np.ravel(trace["customdata"])) for trace in moving]
    assert pytest.approx([0.02, 0.02, 0.04, 0.04]) in nats


def test_without_gradients_the_page_says_what_records_them(result_file):
    result_file.with_errors(ERRORS, predicted_kl=False)
    missing = missing_of(result_file.path)["Predicted KL"]
    assert "--also output_score_grad" in missing.command and "output_score_grad" in missing.why
    assert "predicted-heads" not in drawings_of(result_file.path)


def test_heads_without_any_damage_are_no_map(result_file):
    result_file.with_errors({"full": 0.0, "topk:h2=0": 0.0})
    assert "predicted-heads" not in drawings_of(result_file.path)


def test_the_control_is_among_the_policies_that_are_drawn(result_file):
    many = {f"policy{place:02}": 0.1 + 0.01 * place for place in range(20)}
    result_file.with_errors(many | {"window": 5, "random": 7, OPTIMAL: 3})
    comparison = comparison_of(result_file.path)
    names = [comparison.styles[spec].label for spec in comparison.shown]
    assert {"window", "random", "optimal"} < set(names)
    assert set(names) - {"window", "random", "optimal"} == {f"policy{i:02}" for i in range(7)}
    caption = drawing_of(result_file.path, "projected-error").caption
    assert "Drawn are 10 of 23 policies: window, random, optimal, and" in caption
    assert "the ones with the least projected error at 4 tokens (10%)" in caption
