"""What the report shows of where the running model loses: by kind of token, along the text."""

import json

import numpy as np
import pytest

from conftest import H2O, OPTIMAL, POLICIES, ResultFile, comparison_of, drawings_of
from drawn_figures import figure_of, in_shapes, missing_of, require_named_axes
from kvsim.report.__main__ import main
from kvsim.report.numbers.closed_loop import ClosedLoop
from kvsim.report.numbers.losses import PARTS, kl_along_text, kl_by_kind
from kvsim.report.style import DARK, LIGHT

KINDS = {"answer": 4.0, "text": 1.0, "a third": 3.0, "needle": 2.0}
LOSSES = ["kl-by-kind", "kl-along-text"]


_PART = """(model_id TEXT NOT NULL, sequence TEXT NOT NULL, policy TEXT NOT NULL,
budget INTEGER NOT NULL, mode TEXT NOT NULL, loop TEXT NOT NULL, seed INTEGER NOT NULL, {columns},
policy_code TEXT, run_id TEXT,
PRIMARY KEY (model_id, sequence, policy, budget, mode, loop, seed{key})) WITHOUT ROWID"""
CLOSED_LOOP_KIND = "CREATE TABLE IF NOT EXISTS closed_loop_kind " + _PART.format(
    columns="kind TEXT NOT NULL, tokens INTEGER, nll_full REAL, nll REAL, delta_nll REAL, "
    "kl_mean REAL, top1_agreement REAL, tokens_right_full INTEGER, tokens_right INTEGER",
    key=", kind",
)
CLOSED_LOOP_STEP = "CREATE TABLE IF NOT EXISTS closed_loop_step " + _PART.format(
    columns="first_step INTEGER, kl TEXT, nll_full TEXT, nll TEXT, spans TEXT", key=""
)


def with_parts(result_file, kinds=None, kl=None):
    """Kinds and steps of all rows of closed_loop. `kinds`: KL by kind, `kl`: by step, both times
    that of the row; None: no such table."""
    connection = result_file.connection
    rows = connection.execute(
        "SELECT model_id, sequence, policy, budget, mode, loop, seed, kl_mean FROM closed_loop"
    )
    names = [column[0] for column in rows.description]
    for row in (dict(zip(names, values)) for values in rows.fetchall()):
        mean = row.pop("kl_mean")
        if kinds is not None:
            connection.execute(CLOSED_LOOP_KIND)
        for kind, times in (kinds or {}).items():
            result_file.add("closed_loop_kind", **row, kind=kind, tokens=10, kl_mean=times * mean)
        if kl is not None:
            connection.execute(CLOSED_LOOP_STEP)
            lists = {"kl": [times * mean for times in kl]}
            lists |= dict.fromkeys(["nll_full", "nll"], [1.0] * (len(kl) - 1) + [None])
            part = {name: json.dumps(values) for name, values in lists.items()}
            result_file.add("closed_loop_step", **row, first_step=0, spans="[]", **part)
    return result_file


def with_losses(result_file, texts=6, **parts):
    """The KL of `random` differs between texts; that of all rises along each text."""
    for text in range(texts):
        name = f"text {text}"
        result_file.sweep([*POLICIES, "random"], sequence=name)
        result_file.closed_loop(sequence=name)
        result_file.closed_loop(["random"], sequence=name, kl_mean=0.01 + 0.02 * text)
    parts = parts or {"kinds": KINDS, "kl": np.linspace(0, 2, 64).tolist()}
    return with_parts(result_file, **parts)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return with_losses(ResultFile(tmp_path_factory.mktemp("x") / "r.sqlite"))


@pytest.fixture(scope="module")
def drawings(file):
    return drawings_of(file.path)


@in_shapes(LOSSES)
def test_axes_are_named_with_units_and_nothing_is_cut(drawings, name, shape):
    require_named_axes(figure_of(drawings[name], DARK, shape))


def test_kl_by_kind_is_the_mean_over_texts_with_its_interval(file, drawings):
    found = kl_by_kind(ClosedLoop(comparison_of(file.path)))
    assert list(found.index.unique("kind")) == ["text", "needle", "answer", "a third"]
    row = found.loc[("random", "20%", "answer")]
    assert row.kl_mean == pytest.approx(4 * (0.01 + 0.02 * 2.5)) and row.texts == 6
    assert 0.08 < row.kl_mean_low < row.kl_mean < row.kl_mean_high < 0.4
    assert found.loc[("random", "20%", "needle")].kl_mean == pytest.approx(row.kl_mean / 2)
    drawing = drawings["kl-by-kind"]
    assert "Bars: 95% intervals over 6 texts." in drawing.caption
    first, second = drawing.tables
    assert first.head == ("policy", "text", "needle", "answer", "a third")
    assert second.rows[0][0][0] == "full"
    cell = next(line[3] for line in second.rows if line[0][0] == "random")
    assert cell[0] == f"{row.kl_mean:.4f}" and cell[1].startswith("[0.")
    figure = figure_of(drawing)
    assert [axes.get_title("left") for axes in figure.axes] == list(first.head[1:])
    marks = [line for line in figure.axes[2].lines if line.get_marker() != "None"]
    drawn = sorted(float(line.get_xdata()[0]) for line in marks)
    expected = found.xs("answer", level="kind").kl_mean
    assert drawn == pytest.approx(sorted(expected))
    assert len(drawn) == 2 * (len(POLICIES) + 1)


def test_few_texts_have_no_intervals(result_file):
    drawing = drawings_of(with_losses(result_file, 4).path)["kl-by-kind"]
    assert "4 texts, too few for intervals." in drawing.caption
    assert all(cell[1] == "" for table in drawing.tables for line in table.rows for cell in line)


def test_kl_along_the_text_is_the_mean_of_its_parts(file, drawings):
    closed = ClosedLoop(comparison_of(file.path))
    found = kl_along_text(closed, "20%")
    assert found.shape == (len(POLICIES) + 1, PARTS)
    steps = np.linspace(0, 2, 64).reshape(PARTS, 2).mean(1)
    kl = closed.means.loc[(H2O, "20%"), "kl_mean"]
    assert found.loc[H2O].to_numpy() == pytest.approx(kl * steps, rel=1e-4)
    assert list(found.columns[:2]) == [0.5 / PARTS, 1.5 / PARTS]
    drawing = drawings["kl-along-text"]
    assert f"in each of {PARTS} equal parts of a text, then over 6 texts" in drawing.caption
    lines = {line.get_color(): line for line in figure_of(drawing).axes[0].lines}
    line = lines[closed.styles[H2O].color(LIGHT)]
    assert line.get_ydata() == pytest.approx(found.loc[H2O].to_numpy())
    (table,) = drawing.tables
    assert table.head == ("policy", "0–25%", "25–50%", "50–75%", "75–100%")


def test_a_short_text_has_fewer_parts_and_lines_far_beyond_leave_the_axis(result_file):
    with_losses(result_file, 1, kl=[0.0, 1.0, 2.0])
    result_file.connection.execute(
        "UPDATE closed_loop_step SET kl = '[0, 9, 99]' WHERE policy = 'random'"
    )
    result_file.connection.commit()
    drawing = drawings_of(result_file.path)["kl-along-text"]
    assert "3 equal parts of a text, then over 1 text," in drawing.caption
    assert "Beyond the axis in parts: random." in drawing.caption
    assert figure_of(drawing).axes[0].get_ylim()[1] < 9


def test_policies_on_fewer_texts_than_others_are_left_out(result_file):
    with_losses(result_file)
    for table in ("closed_loop_kind", "closed_loop_step"):
        result_file.connection.execute(
            f"DELETE FROM {table} WHERE policy = 'random' AND sequence = 'text 3'"
        )
    result_file.connection.commit()
    closed = ClosedLoop(comparison_of(result_file.path))
    assert "random" not in kl_along_text(closed, "20%").index
    assert "random" not in kl_by_kind(closed).index.unique("policy")
    assert OPTIMAL in kl_along_text(closed, "20%").index


def test_what_is_missing_is_named_with_the_command_that_adds_it(result_file):
    result_file.sweep().closed_loop()
    by_kind, along = (
        f"Where the loss is: {what}" for what in ("by kind of token", "along the text")
    )
    missing = missing_of(result_file.path)
    assert "have no kinds" in missing[by_kind].why
    assert "--loop imposed -o" in missing[by_kind].command
    assert "--loop imposed --per-step -o" in missing[along].command
    with_parts(result_file, kinds={"text": 1.0})
    missing = missing_of(result_file.path)
    assert "No text has labelled spans" in missing[by_kind].why
    assert "MODEL --texts FILE.jsonl" in missing[by_kind].command
    assert by_kind not in missing_of(with_losses(result_file_next_to(result_file)).path)


def result_file_next_to(result_file):
    return ResultFile(result_file.path.with_name("other.sqlite"))


def test_without_a_running_model_one_figure_says_so(result_file):
    titles = missing_of(result_file.sweep().path)
    assert "Closed loop" in titles and not any("Where the loss" in title for title in titles)


@pytest.mark.usefixtures("without_pictures")
def test_the_page_has_the_numbers(file, tmp_path):
    assert main([str(file.path), "-o", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "index.html").read_text()
    section = page[page.index('<section id="kl-by-kind">') :]
    assert "KL by kind of token at 8 tokens (20%)" in section
    assert '<section id="kl-along-text">' in section
