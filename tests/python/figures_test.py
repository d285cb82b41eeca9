import io
import itertools

import matplotlib.pyplot
import numpy as np
import pytest
from matplotlib.colors import to_hex

from comparison_test import LONG
from conftest import (
    H2O,
    OPTIMAL,
    POLICIES,
    ResultFile,
    comparison_of,
    drawing_of,
    drawings_in,
    drawings_of,
    make_whole,
    write_trace,
)
from drawn_figures import figure_of, in_shapes, missing_of, require_named_axes, require_nothing_cut
from kvsim.report.figures import maps, spread
from kvsim.report.pictures import render
from kvsim.report.style import DARK, LIGHT, NARROW, THEMES, WIDE
from nightly import sample_of

ALL = ["overview", "recall", "miss-rate", "output-error", "gap-closed", "layers", "heads"]
ALL += ["persistence", "sparsity", "attention-map"]


def _pixels(drawing, theme, shape):
    (png,) = render(drawing, theme, shape, ["png"])
    return matplotlib.pyplot.imread(io.BytesIO(png))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The comparison of a file that has everything, and what is drawn of it."""
    file = ResultFile(tmp_path_factory.mktemp("whole") / "results.sqlite")
    comparison = comparison_of(make_whole(file))
    return comparison, drawings_in(comparison)


@in_shapes(ALL)
def test_axes_are_named_with_units_and_nothing_is_cut(whole, name, shape):
    require_named_axes(figure_of(whole[1][name], shape=shape))


@pytest.mark.parametrize("name", ["recall", "miss-rate", "output-error", "gap-closed"])
@pytest.mark.parametrize("theme", THEMES, ids=["light", "dark"])
def test_a_policy_has_its_colour_and_mark_in_every_figure(whole, name, theme):
    comparison, drawings = whole
    drawn = {
        (to_hex(line.get_color()), line.get_marker())
        for axes in figure_of(drawings[name], theme).axes
        for line in axes.lines
        if line.get_marker() not in ("None", None, "")
    }
    styles = {(style.color(theme), style.marker): spec for spec, style in comparison.styles.items()}
    assert len(styles) == len(POLICIES)
    assert drawn <= set(styles)
    assert {styles[look] for look in drawn} >= {H2O, "tova:scope=head,score=cached"}


def test_names_next_to_lines_do_not_overlap(result_file):
    specs = [f"policy{i}" for i in range(30)]
    path = result_file.sweep(specs).path
    figure = figure_of(drawing_of(path, "recall", policies=("all",)), shape=NARROW)
    texts = [t for t in figure.axes[0].texts if t.get_text().startswith("policy")]
    boxes = sorted((text.get_window_extent() for text in texts), key=lambda box: box.y0)
    assert len(boxes) == 30
    assert all(below.y1 <= above.y0 + 2 for below, above in itertools.pairwise(boxes))


def test_one_value_out_of_all_proportion_does_not_flatten_the_others(result_file):
    result_file.sweep(["window", H2O, "tova"])
    result_file.sweep(["subgen:t=4"], output_error_mean=1e6)
    axes = figure_of(drawing_of(result_file.path, "output-error")).axes[0]
    assert axes.get_ylim()[1] < 1
    assert any("subgen ▴ 1e+06" in text.get_text() for text in axes.texts)
    caption = drawing_of(result_file.path, "output-error").caption
    assert caption.endswith("Beyond the axis: subgen.")


def test_no_real_policy_leaves_the_axis_of_the_error(result_file):
    for policy, error in {"full": 0, OPTIMAL: 0.04, H2O: 0.22, "window": 0.23}.items():
        for budget in (4, 8):
            result_file.replay(policy, budget, output_error_mean=error)
    drawing = drawing_of(result_file.path, "output-error")
    assert figure_of(drawing).axes[0].get_ylim()[1] > 0.23
    assert "Beyond the axis" not in drawing.caption


def test_shares_are_never_cut_and_lines_at_zero_are_drawn_without_a_warning(result_file, recwarn):
    for policy in ("full", OPTIMAL, "topk:h2=0", "window"):
        for budget in (4, 8):
            miss = 0.6 if policy == "window" else 0.0
            result_file.replay(
                policy, budget, token_misses=round(100 * miss), output_error_mean=miss
            )
    drawings = drawings_of(result_file.path)
    for name in ("miss-rate", "output-error"):
        assert figure_of(drawings[name]).axes[0].get_ylim()[1] > 0.6
    assert not recwarn.list


def test_the_gap_is_described_at_the_budget_whose_values_it_has(result_file):
    for budget in (4, 8, 16):
        optimal = 0.4 if budget == 16 else 0.9  # no gap at the largest budget
        for policy, recall in {"window": 0.4, OPTIMAL: optimal, H2O: 0.65}.items():
            result_file.replay(policy, budget, attention_recall=recall)
    alt = drawing_of(result_file.path, "gap-closed").alt
    assert alt == "Gap closed at 8 tokens (20%): h2o 0.50"


def test_policies_chosen_for_the_figures_keep_their_yardsticks(result_file):
    path = result_file.sweep().path
    drawn = drawings_of(path, policies=("h2o", "tova"))
    assert "gap-closed" in drawn
    assert "window" not in drawn["gap-closed"].alt
    chosen, everything = (
        comparison_of(path, **choice).at("20%") for choice in ({"policies": ("h2o",)}, {})
    )
    assert list(chosen.index) == [H2O]
    for column in ("regret", "gap_closed"):
        assert chosen.loc[H2O, column] == pytest.approx(everything.loc[H2O, column])


def test_the_map_computes_attention_once_and_names_the_policies_that_it_leaves_out(
    result_file, monkeypatch
):
    write_trace(result_file.path.parent / "trace.h5")
    specs = [H2O, "tova:scope=head,score=cached", "window", "random"]
    for spec in specs:
        result_file.evictions(spec)
    computed = []
    cells_of = maps.cells_of
    monkeypatch.setattr(maps, "cells_of", lambda *args: computed.append(args) or cells_of(*args))
    drawing = drawing_of(result_file.sweep(specs).path, "attention-map")
    assert "left out: window." in drawing.caption
    for theme in THEMES:
        assert len(figure_of(drawing, theme).axes) == 4  # three policies and the bar
    assert len(computed) == 1


@pytest.mark.parametrize("count", [1, 2, 3])
def test_maps_side_by_side_are_not_cut(result_file, count):
    write_trace(result_file.path.parent / "trace.h5")
    specs = [H2O, "tova:scope=head,score=cached", "window"][:count]
    for spec in specs:
        result_file.evictions(spec)
    drawing = drawing_of(result_file.sweep(specs).path, "attention-map")
    for shape in (WIDE, NARROW):
        require_nothing_cut(figure_of(drawing, shape=shape))


@pytest.mark.parametrize("shape", [WIDE, NARROW], ids=["wide", "narrow"])
def test_the_gap_is_whole_next_to_long_names_and_its_numbers_hide_no_mark(result_file, shape):
    closed = {"window": (0, 0), OPTIMAL: (1, 1), LONG: (0.5, 0.5)}
    closed |= {"a": (-9, -9), "b": (-9, 0.2), "c": (-9, 0.55), "d": (-0.8, -9)}
    for policy, gaps in closed.items():
        for budget, gap in zip((4, 8), gaps):
            recall = (0.4 if budget == 4 else 0.5) + 0.02 * gap
            for layer in range(2):
                for kv_head in range(2):
                    shift = 0.02 * layer - 0.03 * kv_head
                    result_file.replay(
                        policy, budget, layer, kv_head, attention_recall=recall + shift
                    )
    figure = figure_of(drawing_of(result_file.path, "gap-closed"), shape=shape)
    require_nothing_cut(figure)
    (axes,) = figure.axes
    texts = [text for text in axes.texts if "◂" in text.get_text()]
    assert len(texts) == 4
    marks = [line for line in axes.lines if line.get_marker() != "None"]
    for text in texts:
        box = text.get_window_extent()
        for mark in marks:
            x, y = axes.transData.transform(mark.get_xydata()[0])
            assert not (box.x0 - 2 < x < box.x1 + 2 and box.y0 < y < box.y1), text.get_text()


def test_what_has_no_colour_is_called_what_it_is(result_file):
    result_file.sweep(["window", "topk:h2=0"])
    caption = drawing_of(result_file.path, "recall").caption
    assert "Without colour: topk, which keeps every token." in caption
    result_file.sweep([OPTIMAL])
    caption = drawing_of(result_file.path, "recall").caption
    assert "the oracles, which see the future, and topk, which keeps every token." in caption


def test_a_figure_of_many_policies_draws_some_and_says_which(result_file):
    result_file.sweep(["window", OPTIMAL, "topk:h2=0", "full"])
    for place in range(20):
        for budget in (4, 8):
            result_file.replay(f"policy{place:02}", budget, attention_recall=place / 40)
            for layer, kv_head in ((0, 1), (1, 0), (1, 1)):
                recall = place / 40 + 0.01 * layer
                result_file.replay(
                    f"policy{place:02}", budget, layer, kv_head, attention_recall=recall
                )
    drawings = drawings_of(result_file.path)
    axes = figure_of(drawings["recall"]).axes[0]
    drawn = {text.get_text() for text in axes.texts}
    assert drawn == {"window", "optimal", "topk", *(f"policy{place}" for place in range(13, 20))}
    caption = drawings["recall"].caption
    assert "Drawn are 10 of 24 policies: window, optimal, topk, and" in caption
    assert "--policies all" in caption and "as in the first curves" in drawings["heads"].caption
    lines = drawings["recall"].explore["data"]
    assert [line["visible"] for line in lines] == [True] * 10 + ["legendonly"] * 14
    everything = drawing_of(result_file.path, "recall", policies=("all",))
    assert len(figure_of(everything).axes[0].texts) == 24


def test_curves_and_gaps_have_bars_where_there_are_intervals(result_file):
    means = comparison_of(result_file.sweep().path).means
    drawings = drawings_of(result_file.path)
    bars = [
        line for line in figure_of(drawings["recall"]).axes[0].lines if len(line.get_xdata()) == 2
    ]
    spans = {tuple(np.round(line.get_ydata(), 6)) for line in bars if line.get_marker() == "None"}
    for spec in POLICIES:
        row = means.loc[(spec, "20%")]
        ends = row["attention_recall_low"], row["attention_recall_high"]
        assert tuple(np.round(ends, 6)) in spans
    (line,) = (line for line in drawings["recall"].explore["data"] if line["name"] == "h2o")
    low, high = line["customdata"][1]
    assert [low, high] == pytest.approx(list(means.loc[(H2O, "20%")][
        ["attention_recall_low", "attention_recall_high"]]), abs=1e-6)  # fmt: skip


def test_one_unit_has_no_bars_and_says_so(result_file):
    path = result_file.sweep(layers=1, kv_heads=1).path
    assert "One unit gives no intervals." in drawing_of(path, "recall").caption
    assert comparison_of(path).means["attention_recall_low"].isna().all()


def test_only_policies_of_the_file_that_evict_are_suggested(result_file):
    assert missing_of(result_file.sweep(["full"]).path)["Attention map"].command == ""
    command = missing_of(result_file.sweep([OPTIMAL]).path)["Attention map"].command
    assert f"--policies '{OPTIMAL}'" in command


def test_places_are_spread_and_stay_in_order():
    assert spread([0.0, 0.5, 1.0], 0.1) == [0.0, 0.5, 1.0]
    assert spread([0.5, 0.5, 0.5], 0.1) == pytest.approx([0.4, 0.5, 0.6])
    found = spread(sorted(np.random.default_rng(3).random(50)), 0.05)
    assert np.diff(found).min() >= 0.05 - 1e-9


FEW = [
    (specs, budgets)
    for specs in ([H2O], ["full"], ["window"], ["window", OPTIMAL], ["window", OPTIMAL, H2O])
    for budgets in ((8,), (4, 8))
]


@pytest.mark.parametrize(("specs", "budgets"), sample_of(FEW[::5], FEW))
def test_few_policies_and_budgets(result_file, specs, budgets):
    for drawing in drawings_of(result_file.sweep(specs, budgets).path).values():
        assert np.ptp(_pixels(drawing, DARK, NARROW)) > 0.1


def test_every_missing_table_costs_only_its_figure(result_file):
    result_file.drop("regret", "certificate", "about", "unit")
    result_file.drop("persistence", "sparsity", "evictions")
    path = result_file.sweep([H2O, "tova"]).path
    names = ["overview", "recall", "miss-rate", "output-error", "layers", "heads"]
    assert list(drawings_of(path)) == names
    commands = {title: plan.command for title, plan in missing_of(path).items()}
    assert "--policies 'window;optimal' --budgets 10%,20%" in commands["Gap closed"]
    assert "--what persistence" in commands["Persistence"]
    assert "--what sparsity" in commands["Sparsity"]
    assert "--what evictions --policies 'tova;h2o:recent=0.5" in commands["Attention map"]


def test_without_the_trace_the_map_is_left_out_with_the_reason(whole_file):
    (whole_file.parent / "trace.h5").unlink()
    missing = missing_of(whole_file)["Attention map"]
    assert "the trace trace.h5 is not there" in missing.why and "--trace" in missing.command
    write_trace(whole_file.parent / "moved.h5")
    assert "attention-map" in drawings_of(whole_file, trace=str(whole_file.parent / "moved.h5"))


def test_a_report_drawn_again_is_the_same(result_file):
    drawing = drawing_of(result_file.sweep().path, "recall")
    assert render(drawing, LIGHT, WIDE, ["svg"]) == render(drawing, LIGHT, WIDE, ["svg"])


def test_names_are_drawn_as_they_are(result_file):
    specs = ["schedule:file=$a", "schedule:file=b$"]
    figure = figure_of(drawing_of(result_file.sweep(specs).path, "recall"))
    assert {"schedule file=$a", "schedule file=b$"} <= {t.get_text() for t in figure.axes[0].texts}
