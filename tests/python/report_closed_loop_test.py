"""What the report shows of the running model: its figures, its numbers, and what is missing."""

import re

import numpy as np
import pytest

import kvsim
from conftest import H2O, OPTIMAL, POLICIES, ResultFile, comparison_of, drawings_of, needs_program
from drawn_figures import figure_of, in_shapes, missing_of, require_named_axes
from kvsim.closed_loop.prediction import rank_correlations
from kvsim.report.__main__ import main
from kvsim.report.figures.closed_loop import command
from kvsim.report.numbers.closed_loop import ClosedLoop
from kvsim.report.style import DARK

CLOSED = ["closed-loop-kl", "closed-loop-nll", "closed-loop-answers", "kept-overlap", "prediction"]
SINK, TOVA = "sink:sinks=4,positions=text", "tova:scope=head,score=cached"


@pytest.fixture
def both(result_file):
    return with_both_loops(result_file)


@pytest.fixture(scope="module")
def drawings(tmp_path_factory):
    return drawings_of(with_both_loops(ResultFile(tmp_path_factory.mktemp("x") / "r.sqlite")).path)


def with_both_loops(result_file):
    """Six texts with both loops; the KL of `random` differs between texts."""
    for text in range(6):
        name = f"text {text}"
        result_file.sweep([*POLICIES, SINK, "random"], sequence=name)
        result_file.closed_loop([*POLICIES, SINK], loops=("imposed", "adaptive"), sequence=name)
        for budget in (4, 8):
            kl = 0.01 + 0.02 * text
            result_file.closed_loop(
                ["random"], (budget,), ("imposed", "adaptive"), sequence=name, kl_mean=kl
            )
    return result_file


@in_shapes(CLOSED)
def test_axes_are_named_with_units_and_nothing_is_cut(drawings, name, shape):
    require_named_axes(figure_of(drawings[name], DARK, shape))


def test_without_rows_of_the_running_model_the_page_says_what_adds_them(result_file):
    missing = missing_of(result_file.sweep(["window", H2O], mode="prefill:interval=never").path)
    for title in ("Closed loop", "Does replay predict it?"):
        command = missing[title].command
        assert command.startswith("python -m kvsim.evaluate MODEL --text FILE --policies 'h2o:")
        protocol = "--mode prefill --eviction-interval never --seed 0 --trace trace.h5 -o"
        assert f"--budgets 10%,20% {protocol}" in command


def test_only_policies_that_the_loop_takes_are_suggested(result_file):
    estimators = ["subgen:delta=4,s=0.25,t=4", "window+quant:bits=4,group=64"]
    result_file.sweep(["window", "lru:score=full", OPTIMAL, "unknown", *estimators])
    comparison = comparison_of(result_file.path)
    imposed, adaptive = (command(comparison, f"--loop {x}") for x in ("imposed", "adaptive"))
    assert f"--policies 'lru:score=full;{OPTIMAL};unknown;window'" in imposed
    assert "--policies 'subgen:delta=4,s=0.25,t=4;unknown;window;window+quant" in adaptive


def test_each_missing_part_costs_only_its_figure(result_file):
    result_file.sweep().closed_loop(answers=0, answers_right=0)
    found, missing = drawings_of(result_file.path), missing_of(result_file.path)
    assert [name for name in CLOSED if name in found] == [
        "closed-loop-kl", "closed-loop-nll", "prediction"
    ]  # fmt: skip
    assert "No text has a span labelled answer" in missing["Answers"].why
    assert "MODEL --texts FILE.jsonl" in missing["Answers"].command
    overlap = missing["Kept tokens, running model against replay"]
    assert "--loop adaptive -o" in overlap.command
    assert f"--policies 'full;{H2O};{TOVA};window'" in overlap.command  # no oracles


def test_rows_of_another_trace_mode_or_seed_are_not_shown(result_file):
    result_file.sweep(["window", H2O, "random"])
    for text, other in enumerate(({"trace_id": "z"}, {"mode": "prefill"}, {"seed": 3})):
        result_file.closed_loop(["window", H2O], sequence=f"of {text}", **other)
    assert "Closed loop" in missing_of(result_file.path)


def test_means_and_intervals_are_over_texts_and_answers_are_pooled(both):
    both.connection.execute("UPDATE closed_loop SET answers = 2, answers_right = 2 WHERE "
                            "sequence = 'text 0' AND policy = 'random'")  # fmt: skip
    both.connection.commit()
    closed = ClosedLoop(comparison_of(both.path))
    row = closed.means.loc[("random", "20%")]
    assert row.kl_mean == pytest.approx(0.01 + 0.02 * 2.5)
    assert 0.02 < row.kl_mean_low < row.kl_mean < row.kl_mean_high < 0.1
    right = round(8 - 80 * 0.07)
    assert row.answers_share == pytest.approx((2 + 5 * right) / (2 + 5 * 8))
    steady = closed.means.loc[(H2O, "20%")]
    assert steady.kl_mean_high - steady.kl_mean_low == pytest.approx(0)


def test_the_overlap_is_that_of_the_adaptive_loop(both):
    closed = ClosedLoop(comparison_of(both.path))
    assert closed.loop == "imposed"
    assert closed.means.loc[(H2O, "20%"), "kept_overlap"] == pytest.approx(0.8)
    both.closed_loop(["knorm"], sequence="text 0", loops=("adaptive",))  # without a replay
    closed = ClosedLoop(comparison_of(both.path))
    assert closed.loop == "imposed" and closed.notes == ["Without a replay, and left out: knorm."]


def test_a_loop_that_ran_at_the_smaller_budgets_alone_is_drawn(both):
    both.connection.execute("DELETE FROM closed_loop WHERE loop = 'adaptive' AND budget = 8")
    both.connection.commit()
    figure = figure_of(drawings_of(both.path)["kept-overlap"])
    names = {text.get_text() for text in figure.axes[0].texts}
    assert {"h2o", "tova", "window"} <= names


def test_a_policy_that_ran_on_fewer_texts_has_no_mean_at_that_budget(both):
    both.connection.execute("DELETE FROM closed_loop WHERE policy = 'random' AND budget = 8 "
                            "AND sequence = 'text 3'")  # fmt: skip
    both.connection.commit()
    means = ClosedLoop(comparison_of(both.path)).means.kl_mean
    assert np.isnan(means["random", "20%"]) and not np.isnan(means["random", "10%"])


def test_correlations_are_those_of_the_library_for_all_and_for_serious_policies(both):
    drawing = drawings_of(both.path)["prediction"]
    ours = ClosedLoop(comparison_of(both.path)).correlations
    for among, names in (("all", None), ("serious", ["sink", "h2o", "tova"])):
        theirs = rank_correlations(both.path, names).spearman
        assert list(ours[ours.among == among].spearman.fillna(9)) == list(theirs.fillna(9))
    imposed, adaptive = drawing.tables
    assert "imposed loop, 6 texts" in imposed.title and "adaptive loop" in adaptive.title
    assert imposed.head == ("budget", "among", "metric", "KL", "increase of NLL", "answers")
    first = ours[(ours.loop == "imposed") & (ours.metric == "output_error_mean")].iloc[0]
    among = ("all policies", "7 points")
    assert imposed.rows[0][:3] == (("10%", ""), among, ("relative error", ""))
    assert imposed.rows[0][3][0] == f"{first.spearman:.2f}" and imposed.rows[0][3][1][0] == "["
    assert len(imposed.rows) == 3 * 2 * 3
    marks = [line for line in figure_of(drawing).axes[0].lines if line.get_marker() != "None"]
    shown = ours[(ours.loop == "imposed") & (ours.outcome == "kl_mean")]
    drawn = sorted(float(line.get_xdata()[0]) for line in marks)
    assert drawn == pytest.approx(sorted(shown.spearman))


def test_two_policies_are_too_few_to_rank(result_file):
    result_file.sweep(["window", H2O], (8,)).closed_loop(["window", H2O], (8,))
    why = missing_of(result_file.path)["Does replay predict it?"].why
    assert why.startswith("It needs three policies")


def test_one_text_has_no_intervals_and_says_so(result_file):
    drawings = drawings_of(result_file.sweep().closed_loop().path)
    assert "One text gives no intervals." in drawings["prediction"].caption
    assert "One text gives no intervals." in drawings["closed-loop-kl"].caption
    assert all(cell[1] == "" for row in drawings["prediction"].tables[0].rows for cell in row[3:])


@pytest.mark.usefixtures("without_pictures")
def test_the_page_shows_figures_and_tables(both, tmp_path):
    assert main([str(both.path), "-o", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "index.html").read_text()
    section = page[page.index('<section id="prediction">') :]
    section = section[: section.index("</section>")]
    assert "<h2>Does replay predict it?</h2>" in section
    assert section.count('<table class="sortable">') == 2 and section.count(" open>") == 1
    assert '<th scope="row">10%</th><td>all policies<small>7 points</small></td>' in section
    kl = page[page.index('<section id="closed-loop-kl">') :]
    assert "The running model at 4 tokens (10%), imposed loop" in kl
    assert re.search(r'<th scope="row">full</th><td>0.0000</td>', kl)
    assert "no number of a replay reliably ranks policies" in page
    assert TOVA in page


def test_traces_of_one_model_are_shown_as_one(result_file):
    for text in range(6):
        key = {"sequence": f"text {text}", "trace_id": f"{5 - text}" * 64}
        result_file.sweep(["window", H2O], **key, attention_recall=0.1 * text)
        result_file.closed_loop(["window", H2O], **key, kl_mean=0.01 * text)
    result_file.sweep(["window", H2O], trace_id="f" * 64)  # of no known model
    comparison = comparison_of(result_file.path)
    assert comparison.trace_ids == [f"{text}" * 64 for text in range(6)]
    (note,) = comparison.notes
    assert note.startswith("trace_id is 000000000000, which has the most rows; there are also rows")
    assert note.endswith("ffffffffffff (--trace-id).")
    assert comparison.means.loc[(H2O, "20%"), "attention_recall"] == pytest.approx(0.25)
    closed = ClosedLoop(comparison)
    assert closed.means.loc[(H2O, "20%"), "kl_mean"] == pytest.approx(0.025)
    assert comparison.trace == "trace.h5"
    one = comparison_of(result_file.path, trace_id="3")
    assert one.trace_ids == ["3" * 64] and one.sequences == ["text 2"]


def test_traces_with_sequences_of_the_same_name_are_shown_apart(result_file):
    for trace in ("1", "2"):
        key = {"sequence": "text", "trace_id": trace * 64, "seed": int(trace == "2")}
        result_file.sweep(["window", H2O], **key)
        result_file.closed_loop(["window", H2O], **key)
    assert comparison_of(result_file.path).trace_ids == ["1" * 64]


@needs_program
def test_the_interval_over_several_traces_is_that_of_the_program(result_file):
    recall = np.random.default_rng(5).random((6, 2))
    for text in range(6):
        key = {"sequence": f"text {text}", "trace_id": f"{(text * 5) % 7}" * 64}
        for policy, share in zip(("window", H2O), recall[text]):
            result_file.replay(policy, 8, **key, attention_recall=share)
        result_file.closed_loop(["window", H2O], (8,), **key)
    program = kvsim.compare(result_file.path, "h2o", "window").iloc[0]
    assert program.sampled == "sequences" and program.samples == 6
    ours = comparison_of(result_file.path).difference(H2O, "window", "20%")
    assert ours == pytest.approx((program.difference, program.low, program.high), abs=1e-12)
