"""The report's figures of what steps fetch from the host."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

import kvsim
from conftest import H2O, OPTIMAL, SAMPLE, ResultFile, comparison_of, drawings_of
from drawn_figures import figure_of, in_shapes, require_named_axes

report = pytest.importorskip("kvsim.report")

from kvsim.report.__main__ import main  # noqa: E402
from kvsim.report.figures import Missing, fetches, fetches_along  # noqa: E402
from kvsim.report.numbers.along_text import busiest, stretches  # noqa: E402
from kvsim.report.numbers.attention import TraceError  # noqa: E402
from kvsim.report.numbers.fetches import Family, Fetches, family_of  # noqa: E402
from kvsim.report.page import chosen, plans  # noqa: E402

NAMES = ["fetch-hit-rate", "fetch-along-text", "fetch-recall"]
SELECTS = ["quest:k=32,page=16", "quest:k=64,page=16", "topk:k=64,page=16"]


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Two texts of the sample trace: two selectors at three sizes, all replacements."""
    file = tmp_path_factory.mktemp("fetches") / "results.sqlite"
    sizes = [96, "50%", 384]
    options = {"layers": 0, "threads": 1, "output": file}
    kvsim.fetch(SAMPLE, SELECTS, sizes, "all", **options)
    return file


def of(path, **choice):
    return Fetches(kvsim.load(path), report.Choice(**choice))


def figures_of(path, **choice):
    shown = chosen(kvsim.load(path), report.Choice(**choice))
    return {plan.name: plan for plan in plans(shown)}


def row(file, select="quest:k=32,page=16", replace="lru", resident=96, **values):
    """A row as kvsim fetch writes it: of 100 chosen pages, ten are fetched, of 512 bytes each."""
    default = {
        "trace_id": "a" * 64, "sequence": "one", "layer": 0, "kv_head": 0, "select": select,
        "resident": resident, "replace": replace, "mode": "stream", "seed": 0, "steps": 40,
        "accesses": 100, "hits": 90, "misses": 10, "hit_rate": 0.9, "fetched_bytes_mean": 128.0,
        "fetched_bytes_p95": 512.0, "fetched_bytes_max": 1024, "summary_bytes": 64,
        "attended_mean": 30.0, "attention_recall": 0.8, "trace": "gone.h5",
        "resident_request": f"{resident}", "device": "cpu", "kvsim_version": "0.1.0",
        "policy_code": "0123456789abcdef",
    }  # fmt: skip
    file.add("fetch", **{**default, **values})


def test_a_file_with_fetches_alone_has_a_page_of_them(real, tmp_path, without_pictures, capsys):
    assert main([str(real), "-o", str(tmp_path / "page"), "--quiet"]) == 0
    page = (tmp_path / "page" / "index.html").read_text()
    assert "<h1>What steps fetch from the host</h1>" in page
    assert all(f'<section id="{name}">' in page for name in NAMES)
    assert 'id="table"' not in page and 'id="legend"' not in page
    assert "kvsim.fetch(" in page and "MIN (Belady)" in page


def test_options_of_policies_are_refused_where_there_are_none(real, tmp_path, capsys):
    for option, value in [("--budget", "20%"), ("--policies", "h2o"), ("--layer", "0")]:
        assert main([str(real), "-o", str(tmp_path), option, value]) == 2
        assert f"{option}: {real} has rows of kvsim fetch alone" in capsys.readouterr().err
    assert main([str(real), "-o", str(tmp_path), "--mode", "prefill"]) == 2
    assert "--mode" in capsys.readouterr().err


def test_the_means_are_those_of_the_rows_and_min_bounds_each_line(real):
    means = of(real).means
    rows = kvsim.load(real).fetch
    one = rows[(rows["select"] == SELECTS[0]) & (rows["replace"] == "lru")]
    expected = one.groupby("resident")["hit_rate"].mean()
    line = of(real).of_select(SELECTS[0], "lru")
    assert line["resident"].to_list() == expected.index.to_list() == [96, 256, 384]
    np.testing.assert_allclose(line["hit_rate"], expected)
    assert (line["hit_rate_low"] < line["hit_rate"]).all()
    table = means.pivot(index=["select", "point"], columns="replace", values="hit_rate")
    assert (table.le(table["belady"] + 1e-12, axis=0)).all(axis=None)
    most = one.groupby("resident")["fetched_bytes_max"].max()
    assert line["fetched_bytes_max"].to_list() == most.to_list()


def test_a_panel_per_selector_has_a_line_per_replacement_and_min_without_colour(real):
    figure = figure_of(figures_of(real)["fetch-hit-rate"])
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in panels] == ["quest k=32", "quest k=64", "topk"]
    lines = {line.get_label(): line for line in panels[0].lines if line.get_label()[0] != "_"}
    assert list(lines) == ["lru", "clock", "fifo", "lfu", "mass", "MIN (belady)"]
    red, green, blue = to_rgb(lines["MIN (belady)"].get_color())
    assert max(red, green, blue) - min(red, green, blue) < 0.06
    assert lines["MIN (belady)"].is_dashed() and not lines["lru"].is_dashed()


def test_amounts_of_one_selector_form_a_line_against_bytes(real):
    drawing = figures_of(real)["fetch-recall"]
    panels = [axes for axes in figure_of(drawing).axes if axes.get_visible()]
    assert len(panels) == 3
    (line,) = [line for line in panels[0].lines if line.get_label() == "quest"]
    found = of(real)
    ends = [found.of_select(select, "lru").iloc[0] for select in SELECTS[:2]]
    np.testing.assert_allclose(line.get_xdata(), [e["fetched_bytes_mean"] / 1024 for e in ends])
    np.testing.assert_allclose(line.get_ydata(), [e["attention_recall"] for e in ends])
    head, rows = drawing.tables[0].head, drawing.tables[0].rows
    cells = {row[0][0] + " " + row[1][0]: dict(zip(head, row)) for row in rows}
    assert cells["quest k=32 lru"]["summaries"][0] == f"{ends[0]['summary_bytes']:,.0f}"
    assert cells["topk lru"]["summaries"][0] == "0"
    assert len(rows) == 3 * 6


@in_shapes(NAMES)
def test_axes_are_named_and_nothing_is_cut(real, name, shape):
    require_named_axes(figure_of(figures_of(real)[name], shape=shape))


def test_stretches_add_up_to_the_row_and_are_what_its_text_fetches_there(real):
    rows = busiest(of(real))
    assert set(rows["resident"]) == {96} and "belady" not in set(rows["replace"])
    found = stretches(rows, SAMPLE, "stream")
    widths = np.diff(found.ends)
    for one in rows.to_dict("records"):
        rates = found.rates[one["select"], one["replace"]]
        np.testing.assert_allclose((rates * widths).sum(), one["fetched_bytes_mean"] * one["steps"])
        assert rates[: 96 // widths[0]].sum() == 0  # everything fits as yet
        assert one["fetched_bytes_max"] >= rates.max() > 0


def test_a_beginning_misses_what_the_whole_text_misses_until_there():
    """The exact choice of one token per step, replayed by hand under LRU: stretches rest on it."""
    random = np.random.default_rng(5)
    query, key, value = random.normal(size=(3, 1, 64, 4))
    trace = kvsim.Trace.from_arrays(query, key, value)
    logits = query[0] @ key[0].T
    held, missed = [0], np.zeros(64)
    for step in range(1, 64):
        token = int(logits[step, :step].argmax())
        missed[step] = token not in held
        held = ([other for other in held if other != token] + [token, step])[-8:]
    row = kvsim.fetch(trace, "topk:k=1", 8, "lru").iloc[0]
    assert row["misses"] == missed.sum()
    ends = [16, 24, 40, 64]
    counted = [
        kvsim.fetch(
            kvsim.Trace.from_arrays(query[:, :end], key[:, :end], value[:, :end]),
            "topk:k=1", 8, "lru",
        ).misses[0]
        for end in ends
    ]  # fmt: skip
    assert counted == [missed[:end].sum() for end in ends]


def test_without_the_trace_the_page_says_what_it_needs(tmp_path):
    file = ResultFile(tmp_path / "results.sqlite")
    row(file)
    found = figures_of(file.path)
    missing = found["fetch-along-text"]
    assert isinstance(missing, Missing) and "--trace TRACE" in missing.command
    assert "gone.h5" in missing.why
    assert hasattr(found["fetch-hit-rate"], "draw") and hasattr(found["fetch-recall"], "draw")


def test_rows_that_the_trace_contradicts_are_not_drawn(real):
    rows = busiest(of(real))
    with pytest.raises(TraceError, match="fetches other pages"):
        stretches(rows.assign(misses=rows["misses"] + 1), SAMPLE, "stream")


@pytest.mark.parametrize("select", ["pq:groups=2,bits=6", "magicpig:tables=150", "mine:k=8"])
def test_selectors_that_may_read_ahead_have_no_figure_along_the_text(tmp_path, select):
    file = ResultFile(tmp_path / "results.sqlite")
    row(file, select)
    (plan,) = fetches_along.plan(of(file.path))
    assert isinstance(plan, Missing) and "reads nothing ahead" in plan.why


def test_policies_and_fetches_stand_on_one_page(tmp_path):
    file = ResultFile(tmp_path / "results.sqlite").sweep([H2O, OPTIMAL])
    row(file)
    row(file, mode="prefill", hit_rate=0.5)
    row(file, sequence="another", hit_rate=0.1)
    drawings = drawings_of(file.path)
    assert {"recall", "fetch-hit-rate", "fetch-recall"} <= set(drawings)
    assert drawings["fetch-hit-rate"].alt == "quest at 96 tokens: lru 0.900"


def test_a_file_without_fetches_has_none_of_these_figures(tmp_path):
    file = ResultFile(tmp_path / "results.sqlite").sweep([H2O, OPTIMAL])
    assert fetches.plan(comparison_of(file.path)) == []


def test_lines_of_other_units_are_left_out_and_named(tmp_path):
    file = ResultFile(tmp_path / "results.sqlite")
    for head in (0, 1):
        row(file, kv_head=head)
    row(file, resident=128)
    found = of(file.path)
    assert found.num_units == 2 and found.means["point"].to_list() == ["96"]
    assert "sizes with other units than these 2: 1" in found.notes[0]


def test_a_share_is_one_point_though_texts_have_other_lengths(tmp_path):
    file = ResultFile(tmp_path / "results.sqlite")
    for sequence, tokens in (("one", 96), ("two", 128)):
        for replace, rate in (("lru", 0.6), ("belady", 0.8)):
            row(file, sequence=sequence, resident=tokens, resident_request="50%", replace=replace,
                hit_rate=rate)  # fmt: skip
    means = of(file.path).means
    assert means["point"].to_list() == ["50%", "50%"] and set(means["resident"]) == {112}


def test_a_curve_is_drawn_without_marks(tmp_path):
    file = tmp_path / "results.sqlite"
    query, key, value = np.random.default_rng(3).normal(size=(3, 2, 60, 8))
    kvsim.fetch(kvsim.Trace.from_arrays(query, key, value), "topk:k=6", curve=True, output=file)
    drawings = figures_of(file)
    line = figure_of(drawings["fetch-hit-rate"]).axes[0].lines[0]
    assert len(line.get_xdata()) == 54 and line.get_marker() == ""
    assert "3 of 54 sizes" in drawings["fetch-recall"].caption


def test_a_family_is_a_selector_without_its_amount():
    assert family_of("quest:k=64,page=16") == Family("quest", "quest:page=16", 64)
    assert family_of("top-p:p=0.95,page=1") == Family("top-p", "top-p:page=1", 0.95)
    assert family_of("mine").settings == "mine" and pd.isna(family_of("mine").amount)
