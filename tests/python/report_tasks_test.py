"""The report's figures of answers to tasks: bars per task, and maps of needles."""

import json
import re

import numpy as np
import pytest
from matplotlib.colors import to_hex

import kvsim
from conftest import H2O, OPTIMAL, ResultFile, comparison_of, drawings_of
from drawn_figures import figure_of, in_shapes, missing_of, require_named_axes
from kvsim.closed_loop.prediction import interval_over_texts
from kvsim.report import Choice, ChoiceError
from kvsim.report.__main__ import main
from kvsim.report.figures.needles import cells_of
from kvsim.report.numbers.tasks import FULL, Tasks
from kvsim.report.page import chosen, plans
from kvsim.report.style import DARK, LIGHT
from report_fetches_test import row as fetched
from task_rows import TOVA, answer, needles

POLICIES = [FULL, H2O, TOVA, "window"]
HARD = "common-words"  # below the reach of the model


def with_tasks(file, texts=6, **values):
    """Needles, values in turns, and words that the model does not count with any cache."""
    needles(file, POLICIES, texts=2, **values)
    for text in range(texts):
        for policy in POLICIES:
            key = {"sequence": f"vt {text}", "task": "variable-tracking", **values}
            answer(file, policy, turn=1, **key)
            answer(file, policy, 4 if policy == FULL else text % 3, turn=2, **key)
            answer(file, policy, 1, sequence=f"words {text}", task=HARD, **values)
    return file.path


def of(path, **choice):
    return Tasks(kvsim.load(path), Choice(**choice))


def figures_of(path, **choice):
    shown = chosen(kvsim.load(path), Choice(**choice))
    return {plan.name: plan for plan in plans(shown)}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return with_tasks(ResultFile(tmp_path_factory.mktemp("tasks") / "results.sqlite"))


@pytest.fixture(scope="module")
def drawings(path):
    return figures_of(path)


@in_shapes(["overview", "tasks-unseen", "needles-unseen"])
def test_axes_are_named_with_units_and_nothing_is_cut(drawings, name, shape):
    require_named_axes(figure_of(drawings[name], DARK, shape))


def test_the_score_of_a_text_is_the_mean_over_its_turns(path):
    scores = of(path).scores["unseen"]
    of_texts = [(0.25 + text % 3 / 4) / 2 for text in range(6)]  # of window
    row = scores.of_tasks.loc[("window", "variable-tracking")]
    assert row.score == pytest.approx(np.mean(of_texts))
    place = scores.tasks.index("variable-tracking")
    assert (row.low, row.high) == pytest.approx(interval_over_texts(np.array(of_texts), place))


def test_tasks_below_reach_are_left_out_of_the_mean(path):
    scores = of(path).scores["unseen"]
    assert scores.below == [HARD] and scores.in_reach == ["niah-single", "variable-tracking"]
    of_h2o = scores.of_tasks.score[H2O]
    mean = (of_h2o["niah-single"] + of_h2o["variable-tracking"]) / 2
    row = scores.means.loc[H2O]
    assert row.score == pytest.approx(mean) and row.low < mean < row.high
    assert list(scores.means.index) == POLICIES
    more, low, high = scores.difference(H2O, "window")
    assert more == pytest.approx(mean - scores.means.score["window"]) and low < more < high


def test_what_is_generated_is_scored_by_what_it_contains(result_file):
    for policy, share in ((FULL, 1.0), ("window", 0.5)):
        answer(result_file, policy, 0, contains=share)
        answer(result_file, policy, 0, sequence="two", contains=share / 2)
    found = figures_of(result_file.path)["tasks-unseen"]
    assert of(result_file.path).scores["unseen"].means.score["window"] == pytest.approx(0.375)
    assert "the text that the model generates contains it" in found.caption
    answer(result_file, FULL, 4, sequence="three")
    answer(result_file, "window", 4, sequence="three")
    mixed = figures_of(result_file.path)["tasks-unseen"].caption
    assert "scores of the two kinds do not compare" in mixed


def test_a_panel_per_task_has_a_bar_per_policy_and_what_is_below_reach_is_grey(path, drawings):
    drawing, styles = drawings["tasks-unseen"], of(path).styles
    panels = {axes.get_title("left"): axes for axes in figure_of(drawing).axes}
    hard = f"{HARD}\nbelow the model's reach"
    assert list(panels) == ["mean", "niah-single", "variable-tracking", hard]
    names = [text.get_text() for text in panels["mean"].get_yticklabels()]
    assert names == ["full", "h2o", "tova", "window"]
    colors = [to_hex(bar.get_facecolor()) for bar in panels["mean"].patches]
    assert colors == [styles[spec].color(LIGHT) for spec in POLICIES]
    assert {bar.get_hatch() for bar in panels["mean"].patches} == {None}
    assert all(bar.get_hatch() for bar in panels[hard].patches)
    assert {to_hex(bar.get_facecolor()) for bar in panels[hard].patches} == {LIGHT.shade}
    scores = of(path).scores["unseen"]
    widths = [bar.get_width() for bar in panels["niah-single"].patches]
    of_task = scores.of_tasks.score.xs("niah-single", level="task")
    assert widths == pytest.approx([of_task[spec] for spec in POLICIES])
    assert f"{HARD}." in drawing.caption and "less than 0.6" in drawing.caption
    assert f"{HARD}, below the model's reach: full 0.25" in drawing.alt
    (table,) = drawing.tables
    assert table.head[1:] == ("mean", "niah-single", "variable-tracking", f"{HARD} (below reach)")
    assert table.rows[0][0][0] == "full" and table.rows[0][1] == ("1.000", "[1.000, 1.000]")
    bars = drawing.explore["data"][1]
    assert bars["name"] == "h2o" and bars["marker"]["pattern"]["shape"] == ["", "", "", "/"]
    assert bars["y"][3] == 0.25


def test_maps_have_the_mean_of_each_length_and_depth(path, drawings):
    found = of(path).scores["unseen"].needles
    cells = cells_of(found, "window")
    assert list(cells.columns) == [512, 1024] and list(cells.index) == [0, 0.5, 1]
    assert cells.to_numpy() == pytest.approx(np.array([[0.25, 0], [0.25, 0], [0.25, 0.25]]))
    drawing = drawings["needles-unseen"]
    titles = [axes.get_title() for axes in figure_of(drawing).axes[:4]]
    assert titles == ["full: 1.00", "h2o: 0.67", "tova: 0.42", "window: 0.17"]
    assert drawing.explore["data"][3]["customdata"][2] == [0.25, 0.25]
    assert drawing.explore["data"][0]["x"] == ["512", "1024"]


def test_lengths_that_nobody_asked_for_and_many_depths_are_grouped(result_file):
    for text in range(30):
        for policy in (FULL, "window"):
            key = {"sequence": f"{text}", "length": 1000 + 10 * text, "depth": text / 29}
            answer(result_file, policy, 4, **key)
    cells = cells_of(of(result_file.path).scores["unseen"].needles, "window")
    assert cells.shape == (11, 8)
    assert cells.columns[0] == pytest.approx(1000 + 290 / 16)
    assert np.nanmin(cells.to_numpy()) == 1


def test_the_title_is_the_best_policy_of_those_that_compress(path, drawings):
    drawing = drawings["overview"]
    assert drawing.finding == "h2o has the highest mean score at 20%"
    (table,) = drawing.tables
    assert table.head == ("policy", "mean score", "more than h2o", "verdict")
    assert [row[0] for row in table.rows][:2] == [("full", "does not compete"), ("h2o", "")]
    assert f"0.6: {HARD}." in drawing.caption


@pytest.mark.usefixtures("without_pictures")
def test_a_file_with_answers_alone_has_a_page_of_them(path, tmp_path, capsys):
    assert main([str(path), "-o", str(tmp_path), "--quiet"]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'index.html'}: 3 figures\n"
    page = (tmp_path / "index.html").read_text()
    assert "<h1>Policies at tasks</h1>" in page and "closed loop" in page
    assert "<h2>h2o has the highest mean score at 20%</h2>" in page
    assert '<section id="needles-unseen">' in page and 'id="table"' not in page
    assert 'id="legend"' in page and TOVA in page
    assert "<dt>Model</dt><dd>tiny</dd>" in page and "<dd>24 texts</dd>" in page
    sources = re.findall(r'class="explore">(.*?)</script>', page)
    assert len(sources) == 3
    colours = re.findall(r"var\(--(\w+)\)", json.dumps([json.loads(text) for text in sources]))
    assert {"p1", "p2", "p3", "p4", "muted"} <= set(colours)
    for option, value in [("--layer", "0"), ("--trace", "x.h5"), ("--calibration", "x")]:
        assert main([str(path), "-o", str(tmp_path), option, value]) == 2
        assert f"{option}: {path} has answers to tasks alone" in capsys.readouterr().err


def test_each_kind_of_question_has_its_figures_at_the_chosen_budget(result_file):
    with_tasks(result_file, question="after", in_view=1)
    for question, right in (("unseen", 2), ("after", 3)):
        for policy in POLICIES:
            key = {"budget": 100, "budget_request": "10%", "question": question}
            key["in_view"] = int(question == "after")
            answer(result_file, policy, right, sequence="vt 0", task="variable-tracking", **key)
    assert of(result_file.path).questions == ["unseen", "after"]
    found = figures_of(result_file.path)
    assert {"tasks-after", "needles-after"} <= set(found)
    assert "at 20%" in found["tasks-after"].caption
    assert "Other budgets of the file: 10% (--budget)." in found["tasks-after"].caption
    assert "compressed together" in found["tasks-after"].caption
    at_10 = of(result_file.path, budget="10%").scores["unseen"].of_tasks
    assert at_10.score["window"]["variable-tracking"] == 0.5
    with pytest.raises(ChoiceError, match=r"--budget: .* has no 3%; it has 10%, 20%"):
        of(result_file.path, budget="3%")
    with pytest.raises(ChoiceError, match=r"--policies: .* found lru; there are full, h2o, tova"):
        of(result_file.path, policies=("lru",))
    assert of(result_file.path, policies=("window",)).policies == ["window", FULL]


def test_other_texts_or_fewer_turns_are_left_out_and_named(result_file):
    with_tasks(result_file)
    result_file.connection.execute(
        "DELETE FROM task_answer WHERE policy = 'window' AND sequence = 'vt 3' AND turn = 2"
    )
    result_file.connection.commit()
    scores = of(result_file.path).scores["unseen"]
    assert scores.left_out == [("window", "variable-tracking")]
    assert "window" not in scores.means.index
    found = figures_of(result_file.path)["tasks-unseen"]
    assert "same texts as the others: window at variable-tracking." in found.caption
    cells = {row[0][0]: row[1:] for row in found.tables[0].rows}["window"]
    assert cells[0] == ("–", "") and cells[1][0] != "–"


def test_few_texts_have_no_intervals_and_call_no_policy_best(result_file):
    with_tasks(result_file, texts=3)
    found = figures_of(result_file.path)
    assert found["overview"].finding == "Too few texts (3) to call one policy best at 20%"
    rows = found["tasks-unseen"].tables[0].rows
    assert all(cell[1] == "" for row in rows for cell in (row[1], row[3]))
    assert "[" in rows[1][2][1]  # twelve needles


def test_without_the_full_cache_no_task_is_called_below_reach(result_file):
    with_tasks(result_file)
    result_file.connection.execute("DELETE FROM task_answer WHERE policy = 'full'")
    result_file.connection.commit()
    assert of(result_file.path).scores["unseen"].below == []
    caption = figures_of(result_file.path)["tasks-unseen"].caption
    assert "does not say which tasks the model can do" in caption and "hatched" not in caption


def test_a_file_whose_tasks_are_all_below_reach_shows_them(result_file):
    for policy in (FULL, "window"):
        answer(result_file, policy, 1, depth=0.5)
    found = figures_of(result_file.path)
    assert list(found) == ["tasks-unseen"]
    figure = figure_of(found["tasks-unseen"])
    assert [axes.get_title("left") for axes in figure.axes] == [
        "niah-single\nbelow the model's reach"
    ]


def test_next_to_a_replay_policies_look_alike_and_a_page_without_answers_says_what_adds_them(
    result_file,
):
    result_file.sweep([H2O, "window", OPTIMAL])
    missing = missing_of(result_file.path)["Scores of tasks"]
    assert missing.command.startswith("python -m kvsim.tasks evaluate MODEL --texts FILE.jsonl")
    assert "--budgets 10%,20% -o" in missing.command
    with_tasks(result_file)
    comparison = comparison_of(result_file.path)
    legend = [style.spec for style in comparison.legend]
    assert legend == [FULL, H2O, TOVA, "window", OPTIMAL]
    drawings = drawings_of(result_file.path)
    names = [name for name in drawings if name.endswith("unseen")]
    assert names == ["tasks-unseen", "needles-unseen"]
    assert drawings["overview"].finding.startswith("Too few units")
    (color,) = (
        bars["marker"]["color"][0]
        for bars in drawings["tasks-unseen"].explore["data"]
        if bars["name"] == "window"
    )
    assert color == "var(--p4)"


def test_a_file_of_answers_and_fetches_has_both_on_one_page(result_file):
    with_tasks(result_file)
    fetched(result_file)
    found = figures_of(result_file.path)
    assert {"overview", "tasks-unseen", "fetch-hit-rate", "fetch-recall"} <= set(found)


def test_of_two_models_the_one_with_the_most_rows_is_shown(result_file):
    for text in ("one", "two"):
        answer(result_file, "window", 4, sequence=text)
    answer(result_file, "window", 0, model_id="a" * 64)
    tasks = of(result_file.path)
    assert tasks.scores["unseen"].means.score["window"] == 1
    (note,) = tasks.notes
    assert "the model bbbbbbbbbbbb, which has the most rows" in note and "aaaaaaaaaaaa." in note
