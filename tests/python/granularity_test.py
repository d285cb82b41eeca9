"""The report's figure of what pages and shared heads cost."""

import pytest

from conftest import H2O, OPTIMAL, ResultFile, comparison_of, drawing_of
from drawn_figures import figure_of
from kvsim.report.figures import Missing, granularity
from kvsim.report.numbers.granularity import token_mode

SHARED = "+shared:scores=mean"


@pytest.fixture
def pages(tmp_path):
    """Recalls at 8 tokens: the optimum .8 by token, .7 by page, .6 if heads share; h2o .5, .45."""
    file = ResultFile(tmp_path / "results.sqlite")
    recalls = {OPTIMAL: 0.7, OPTIMAL + SHARED: 0.6, H2O: 0.5, H2O + SHARED: 0.45}
    for policy, recall in recalls.items():
        file.sweep([policy], budgets=(8,), mode="stream:page=4", attention_recall=recall)
    return file


def test_the_price_of_pages_and_the_policys_own_regret_add_up(pages):
    pages.sweep([OPTIMAL], budgets=(8,), attention_recall=0.8)
    drawing = drawing_of(pages.path, "granularity", mode="stream:page=4")
    (table,) = drawing.tables
    numbers = {row[0][0]: [cell[0] for cell in row[1:]] for row in table.rows}
    assert numbers == {"h2o": ["0.1000", "0.2000"], "h2o+shared": ["0.2000", "0.1500"]}
    assert table.rows[0][1][1] == "[0.1000, 0.1000]"
    assert "h2o 0.100 and 0.200" in drawing.alt
    axes = figure_of(drawing).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["h2o", "h2o+shared"]


def test_without_the_optimum_of_tokens_the_page_says_what_writes_it(pages):
    (missing,) = granularity.plan(comparison_of(pages.path, mode="stream:page=4"))
    assert isinstance(missing, Missing)
    assert "--budgets 8" in missing.command and "--page 4" in missing.command
    assert missing.command.count("kvsim sweep") == 2


def test_caches_of_tokens_have_no_such_figure(tmp_path):
    file = ResultFile(tmp_path / "results.sqlite").sweep([OPTIMAL, H2O])
    assert granularity.plan(comparison_of(file.path)) == []


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("stream:page=16", "stream"),
        ("prefill:interval=4,page=16,page-score=max,every=2", "prefill:interval=4,every=2"),
        ("stream", "stream"),
    ],
)
def test_the_mode_of_tokens_has_all_else(mode, expected):
    assert token_mode(mode) == expected
