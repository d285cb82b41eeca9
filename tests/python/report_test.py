import base64
import re
import sqlite3

import matplotlib.pyplot
import numpy as np
import pytest
from matplotlib.colors import to_hex

import kvsim
from comparison_test import LONG
from conftest import (
    H2O,
    OPTIMAL,
    POLICIES,
    SAMPLE,
    comparison_of,
    drawings_of,
    write_trace,
)
from kvsim.report import page, pictures
from kvsim.report.__main__ import main
from kvsim.report.figures import Missing, curves, heat, overview
from kvsim.report.page import plans
from kvsim.report.pictures import render
from kvsim.report.style import DARK, LIGHT
from nightly import sample_of

NAMESPACES = ("http://www.w3.org/", "http://purl.org/dc/", "http://creativecommons.org/ns")
ALL = ["overview", "recall", "miss-rate", "output-error", "gap-closed", "layers", "heads"]
ALL += ["persistence", "sparsity", "attention-map"]
# The curves and the maps of layers and heads take longest; figures_test draws them, too.
WRITTEN = sample_of(["overview", "gap-closed", *ALL[-3:]], ALL)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """What the command leaves for a file that has everything, with a spec of every length."""
    from conftest import ResultFile

    folder = tmp_path_factory.mktemp("report")
    write_trace(folder / "trace.h5")
    file = ResultFile(folder / "results.sqlite").sweep([*POLICIES, LONG]).analyses().evictions()
    kinds = [kind for kind in page._PLANS if kind not in (curves, heat)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "_PLANS", sample_of(kinds, page._PLANS))
        main([str(file.path), "-o", str(folder / "out")])
    return folder / "out"


def test_every_figure_is_there_light_and_dark_and_for_papers(report):
    found = sorted(file.name for file in (report / "figures").iterdir())
    endings = ["column.pdf", "dark.png", "dark.svg", "light.png", "light.svg", "text.pdf"]
    assert found == sorted(f"{name}-{ending}" for name in WRITTEN for ending in endings)


def test_figures_are_not_blank_and_stand_on_their_paper(report):
    for file in (report / "figures").glob("*.png"):
        image = matplotlib.pyplot.imread(file)
        theme = LIGHT if "light" in file.name else DARK
        assert to_hex(image[0, 0]) == theme.paper, file
        assert np.mean(np.abs(image[..., :3] - image[0, 0, :3]).max(axis=2) > 0.1) > 0.005, file


def test_page_needs_nothing_but_itself(report):
    page = (report / "index.html").read_text()
    sources = re.findall(r'(?:src|srcset|href)="([^"]*)"', page)
    assert not re.search(r"<link|@import|url\(|https?://", page)
    for source in sources:
        if not source.startswith(("data:image/svg+xml;base64,", "#")):
            assert (report / source).is_file(), source
        elif source.startswith("data:"):
            picture = base64.b64decode(source.partition(",")[2]).decode()
            addresses = set(re.findall(r"https?://[\w./-]+", picture))
            assert all(address.startswith(NAMESPACES) for address in addresses), addresses
            assert "font-family" not in picture  # text is drawn as shapes


def test_page_has_every_figure_in_both_themes_and_shapes_and_says_what_it_shows(report):
    page = (report / "index.html").read_text()
    assert page.count("data:image/svg+xml") == 4 * len(WRITTEN)
    assert page.count("prefers-color-scheme:dark") == 2 * len(WRITTEN) + 1
    assert '<meta name="viewport" content="width=device-width' in page
    for alt in re.findall(r'alt="([^"]*)"', page):
        assert len(alt) > 10
    assert LONG in page and H2O in page


def test_table_is_sorted_by_regret_with_bytes(report):
    page = (report / "index.html").read_text()
    table = page[page.index('<section id="table">') : page.index('<section id="legend">')]
    first = table[: table.index("</details>")]
    rows = re.findall(r'<th scope="row" title="([^"]*)">.*?</tr>', first)
    assert rows[:3] == ["full", "topk:h2=0", OPTIMAL]
    cells = [re.findall(r"<td[^>]*>([^<]*)<", row) for row in first.split("<tr")[2:]]
    regrets = [row[-2].replace("−", "-") for row in cells]
    assert len(regrets) == 7 and sorted(regrets, key=float) == regrets
    assert "bytes" in first and "512" in first


@pytest.mark.usefixtures("without_pictures")
def test_prefill_mode_with_bounds_that_do_not_apply(result_file, tmp_path):
    write_trace(tmp_path / "trace.h5")
    result_file.sweep(mode="prefill", bound_mean=None, bound_violations=None)
    result_file.evictions(mode="prefill")
    assert "attention-map" in drawings_of(result_file.path)
    main([str(result_file.path), "-o", str(tmp_path / "out")])
    assert "<dd>prefill, 0</dd>" in (tmp_path / "out" / "index.html").read_text()


def test_rows_without_a_reference_are_shown_with_what_they_hold(result_file, tmp_path):
    measured = ["attention_recall", "attention_loss", "miss_rate", "token_accesses", "token_misses"]
    measured += ["output_error_mean", "output_error_p50", "output_error_p95", "output_error_max"]
    nothing = dict.fromkeys([*measured, "bound_mean", "bound_violations"])
    result_file.sweep(["window", H2O], mode="stream:reference=none", **nothing)
    assert not drawings_of(result_file.path)
    assert main([str(result_file.path), "-o", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "index.html").read_text()
    assert "<dd>stream:reference=none, 0</dd>" in page
    assert "the highest attention" not in page
    table = page[page.index('<section id="table">') : page.index('<section id="legend">')]
    cells = [re.findall(r"<td[^>]*>([^<]*)<", row) for row in table.split("<tr")[2:4]]
    assert cells == [["8", "512", *["–"] * 7]] * 2


def test_rows_with_errors_at_some_steps_are_shown_next_to_the_evictions(result_file, tmp_path):
    write_trace(tmp_path / "trace.h5")
    result_file.sweep(mode="stream:every=10").evictions()
    assert set(drawings_of(result_file.path)) >= {"recall", "output-error", "attention-map"}
    result_file.sweep(["window"], mode="stream")
    notes = comparison_of(result_file.path).notes
    assert any("mode is stream:every=10" in note for note in notes)


def test_a_map_shows_no_evictions_of_another_protocol(result_file):
    write_trace(result_file.path.parent / "trace.h5")
    result_file.sweep(mode="prefill:interval=never,every=10").evictions(mode="prefill")
    (missing,) = (
        plan
        for plan in plans(comparison_of(result_file.path))
        if isinstance(plan, Missing) and plan.title == "Attention map"
    )
    assert missing.command == "" and "evict at every step" in missing.why


@pytest.mark.usefixtures("without_pictures")
def test_names_from_the_file_are_text_in_the_page(result_file, tmp_path):
    result_file.sweep(["window"], budgets=(8,), sequence="<script>alert(1)</script>")
    main([str(result_file.path), "-o", str(tmp_path / "out")])
    assert "<script>alert" not in (tmp_path / "out" / "index.html").read_text()


def test_an_interrupted_report_leaves_the_earlier_one_as_it_was(
    result_file, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(page, "_PLANS", (overview,))
    out = tmp_path / "out"
    main([str(result_file.sweep(["window"]).path), "-o", str(out)])
    before = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
    drawn = []

    def stops(*arguments):
        drawn.append(arguments)
        if len(drawn) > 5:
            raise KeyboardInterrupt
        return render(*arguments)

    monkeypatch.setattr(pictures, "render", stops)
    assert main([str(result_file.sweep([H2O]).path), "-o", str(out)]) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == "kvsim: error: interrupted; no report was written"
    assert {file: file.read_bytes() for file in out.rglob("*") if file.is_file()} == before


@pytest.mark.usefixtures("without_pictures")
def test_a_report_written_again_has_no_figures_of_the_one_before(whole_file, tmp_path):
    out = tmp_path / "out"
    main([str(whole_file), "-o", str(out)])
    (out / "figures" / "mine.png").touch()
    with sqlite3.connect(whole_file) as connection:
        connection.execute("DELETE FROM persistence")
    main([str(whole_file), "-o", str(out)])
    names = {file.name for file in (out / "figures").iterdir()}
    assert "mine.png" in names and "sparsity-dark.svg" in names
    assert not any(name.startswith("persistence") for name in names)


def test_report_of_a_real_sweep(program, tmp_path):
    sweep = ["--policies", "window;h2o;h2o:recent=0.25;subgen;optimal", "--budgets", "5%,20%"]
    common = ["--layers", "1-2", "-o", "r.sqlite"]
    program("sweep", SAMPLE, *sweep, *common, cwd=tmp_path)
    what = ["--what", "persistence,sparsity,evictions", "--policies", "h2o", "--budgets", "20%"]
    program("analyze", SAMPLE, *what, *common, cwd=tmp_path)
    drawings = list(drawings_of(tmp_path / "r.sqlite"))
    assert [name for name in drawings if name in ALL] == ALL
    assert set(drawings) - set(ALL) == {
        "projected-error",
        "predicted-kl",
        "predicted-heads",
        "loss-bytes",
    }
    assert drawings[:2] == ["overview", "projected-error"]
    means = comparison_of(tmp_path / "r.sqlite").means
    view = kvsim.load(tmp_path / "r.sqlite").regret.query(f"oracle == '{OPTIMAL}'")
    regret = view.groupby(["policy", "budget"])["regret"].mean().sort_index()
    ours = means.set_index("budget", append=True).droplevel("point")["regret"].sort_index()
    assert ours.to_numpy() == pytest.approx(regret.to_numpy())
