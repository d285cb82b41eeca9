"""The figure at the head of the report: how policies stand, and what its title says of them."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from conftest import H2O, OPTIMAL, ResultFile, comparison_of, drawing_of, drawings_of
from drawn_figures import figure_of, in_shapes, require_named_axes
from kvsim.report.numbers.closed_loop import ClosedLoop
from kvsim.report.numbers.standing import MOST_WORDS, of_model, of_replay
from kvsim.report.style import DARK, LIGHT

TOVA = "tova:scope=head,score=cached"


def measured(file, recalls, texts=6):
    """A text is a sample; `recalls` by policy: a number, or one per text."""
    for text in range(texts):
        for spec, recall in recalls.items():
            found = recall if np.isscalar(recall) else recall[text]
            values = {"attention_recall": found + 0.01 * text, "sequence": f"text {text}"}
            file.replay(spec, 4, **values)
    return file.path


def finding_of(path, **choice):
    found = drawing_of(path, "overview", **choice).finding
    assert len(found.split()) <= MOST_WORDS
    return found


def drawn(figure):
    """The marks by height, and the ends of the lines of intervals."""
    lines = figure.axes[0].lines
    marks = {line.get_ydata()[0]: line for line in lines if line.get_marker() != "None"}
    ends = {
        line.get_ydata()[0]: tuple(line.get_xdata())
        for line in lines
        if line.get_marker() == "None"
    }
    return marks, ends


def test_rows_are_ranked_with_intervals_and_oracles_are_hollow(result_file):
    path = measured(result_file, {"window": 0.4, OPTIMAL: 0.7, H2O: 0.6, TOVA: 0.55})
    drawing = drawing_of(path, "overview")
    assert drawing.finding == "h2o has the highest attention recall at 10%"
    figure = figure_of(drawing)
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert names == ["optimal", "h2o", "tova", "window"]
    assert figure.axes[0].get_ylim() == (3.5, -0.5)  # the first one is at the top
    marks, ends = drawn(figure)
    means = comparison_of(path).at("10%")
    assert [marks[place].get_xdata()[0] for place in range(4)] == list(means.attention_recall)
    assert ends[1] == tuple(means.loc[H2O, ["attention_recall_low", "attention_recall_high"]])
    assert to_hex(marks[0].get_markerfacecolor()) == LIGHT.paper
    assert to_hex(marks[1].get_markerfacecolor()) != LIGHT.paper
    bold = [text.get_fontweight() == "bold" for text in figure.axes[0].get_yticklabels()]
    assert bold == [False, True, False, False]
    assert drawing.alt.startswith("attention recall (share of attention, 0–1) at 4 tokens (10%)")
    assert "h2o 0.625 [0.6" in drawing.alt
    first = drawing.explore["data"][1]
    assert first["x"] == [0.625] and first["y"] == [1] and "-open" not in first["marker"]["symbol"]
    assert drawing.explore["data"][0]["marker"]["symbol"].endswith("-open")
    assert drawing.explore["layout"]["yaxis"]["ticktext"][1] == "<b>h2o</b>"


def test_what_is_not_distinguishable_is_named_and_bold(result_file):
    near = [0.6 + 0.05 * (-1) ** text for text in range(6)]
    path = measured(result_file, {"window": 0.599, H2O: near, TOVA: 0.1})
    drawing = drawing_of(path, "overview")
    assert drawing.finding == "No single best policy at 10%: h2o, window"
    weights = [text.get_fontweight() for text in figure_of(drawing).axes[0].get_yticklabels()]
    assert weights == ["bold", "bold", "normal"]
    assert "Bold: policies that are not distinguishable from the best" in drawing.caption
    (table,) = drawing.tables
    verdicts = {row[0][0]: row[3][0] for row in table.rows}
    assert verdicts == {"h2o": "", "window": "not distinguishable", "tova": "distinguishable"}
    more = next(row[2] for row in table.rows if row[0][0] == "window")
    assert more[0] == "−0.0010" and more[1].startswith("[−0.") and "−" not in more[1][2:]


@pytest.mark.parametrize(
    ("policies", "texts", "says"),
    [
        ([H2O, "window"], 1, "One unit gives no intervals: no best policy at 10%"),
        ([H2O, "window"], 4, "Too few units (4) to call one policy best at 10%"),
        ([H2O], 6, "h2o is the only policy at 10%"),
        ([f"policy{x}" for x in "abcde"], 6,
         "No single best policy at 10%: policya, policyb, policyc and 2 more"),
        (["window", "h2o:recent=0.1", "h2o:recent=0.2", "h2o:recent=0.3"], 6,
         "No single best policy at 10%: h2o recent=0.1 and 3 more"),
    ],
)  # fmt: skip
def test_a_title_says_no_more_than_the_data_do(result_file, policies, texts, says):
    assert finding_of(measured(result_file, dict.fromkeys(policies, 0.5), texts)) == says


def test_without_a_policy_that_competes_there_is_no_such_figure(result_file):
    measured(result_file, {OPTIMAL: 0.7})
    assert "overview" not in drawings_of(result_file.path)


def with_model(file, texts=6):
    """The running model has `window` first, of the policies that it ran; the replay has h2o."""
    measured(file, {"window": 0.4, H2O: 0.6, TOVA: 0.55, OPTIMAL: 0.7}, texts)
    for text in range(texts):
        for spec, kl in {"window": 0.01, H2O: 0.03, OPTIMAL: 0.02}.items():
            values = {"sequence": f"text {text}", "kl_mean": kl + 0.001 * text}
            file.closed_loop([spec], (4,), **values)
    return file.path


def test_where_the_model_ran_its_kl_decides_and_the_replay_is_in_a_table(result_file):
    drawing = drawing_of(with_model(result_file), "overview")
    assert drawing.finding == "window has the least KL of the running model at 10%"
    names = [text.get_text() for text in figure_of(drawing).axes[0].get_yticklabels()]
    assert names == ["window", "optimal", "h2o"]
    assert "imposed loop" in drawing.caption and "1 policy has no rows" in drawing.caption
    model, replay = drawing.tables
    assert model.title == "KL of the running model at 4 tokens (10%) per KV head"
    assert replay.head == ("policy", "attention recall", "more than h2o", "verdict")
    assert len(model.rows) == 3 and len(replay.rows) == 4
    assert of_model(ClosedLoop(comparison_of(result_file.path))).samples == 6


def test_where_the_model_ran_at_other_budgets_alone_the_replay_stands(result_file):
    path = with_model(result_file)
    for text in range(6):
        for spec in ("window", H2O):
            result_file.replay(spec, 8, sequence=f"text {text}")
    assert finding_of(path) == "h2o has the highest attention recall at 20%"
    assert finding_of(path, budget="10%").startswith("window has the least KL")


def test_a_large_loss_leaves_the_axis_and_says_its_number(result_file):
    file = result_file.with_errors({"window": 900.0, H2O: 2.0, "random": 1.0}, layers=6)
    drawing = drawing_of(file.path, "overview")
    figure = figure_of(drawing)
    (text,) = figure.axes[0].texts
    assert text.get_text() == "6,750 ▸" and figure.axes[0].get_xlim()[1] < 100
    assert "▸: beyond the axis." in drawing.caption
    (note,) = drawing.explore["layout"]["annotations"]
    assert note["text"] == "6,750 ▸" and note["y"] == 2
    assert drawing.explore["layout"]["xaxis"]["range"][1] < 100


def test_the_model_s_best_are_drawn_though_the_replay_ranks_them_last(result_file):
    many = {f"policy{place:02}": 0.2 + place / 100 for place in range(14)} | {"window": 0.1}
    measured(result_file, many | {"random+quant:bits=4": 0.1})
    for text in range(6):
        for place, spec in enumerate([*many, "random+quant:bits=4"]):
            values = {"sequence": f"text {text}", "kl_mean": 0.01 * (1 + place)}
            result_file.closed_loop([spec], (4,), **values)
    comparison = comparison_of(result_file.path)
    assert "policy00" not in of_replay(comparison).shown
    names = of_model(ClosedLoop(comparison)).shown
    assert names == [*(f"policy{place:02}" for place in range(9)), "window"]
    assert "Drawn are 10 of 16 policies" in drawing_of(result_file.path, "overview").caption


@pytest.fixture(scope="module")
def drawings(tmp_path_factory):
    file = ResultFile(tmp_path_factory.mktemp("overview") / "results.sqlite")
    return drawings_of(with_model(file))


@in_shapes(["overview"])
def test_axes_are_named_with_units_and_nothing_is_cut(drawings, name, shape):
    require_named_axes(figure_of(drawings[name], DARK, shape))
