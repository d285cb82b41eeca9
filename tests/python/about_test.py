"""A frame says what its columns mean, and a comparison what follows from it."""

import pandas as pd
import pytest

import kvsim
from kvsim.results.meanings import about_comparison

HOSTILE = "<script>alert(1)</script>\x1b[2J"


def compared(rows, metric="attention_recall", b="window"):
    columns = ["budget", "mode", "difference", "low", "high", "samples", "sampled"]
    frame = pd.DataFrame(rows, columns=columns if b else ["b", *columns])
    frame.attrs.update(about_comparison("h2o", b, metric))
    return frame


def test_a_table_shows_its_row_and_the_unit_and_meaning_of_each_column(result_file):
    replay = kvsim.load(result_file.sweep().path).replay
    for frame in (replay, replay.head(1)[["budget", "cache_bytes"]]):
        about = kvsim.about(frame)
        for shown in (repr(about), about._repr_html_()):
            assert replay.attrs["shows"] in shown
            assert "most tokens that the KV head may keep" in " ".join(shown.split())
            assert "bytes" in shown and "cache_bytes" in shown
    assert "ties" not in repr(about)  # columns that are not in the frame
    assert max(map(len, repr(kvsim.about(replay)).splitlines()[1:])) <= 100


def test_columns_of_ones_own_have_no_meaning_and_names_are_escaped(result_file):
    frame = kvsim.load(result_file.sweep().path).replay
    frame[HOSTILE] = 1
    about = kvsim.about(frame)
    assert "\x1b" not in repr(about) and "<script>" not in about._repr_html_()
    assert "&lt;script&gt;" in about._repr_html_()


@pytest.mark.parametrize(
    ("row", "metric", "verdict"),
    [
        ((0.2, 0.1, 0.3, 9), "attention_recall", "h2o is better than window"),
        ((-0.2, -0.3, -0.1, 9), "attention_recall", "h2o is worse than window"),
        ((-0.2, -0.3, -0.1, 9), "projected_error", "h2o is better than window"),
        ((0.2, 0.1, 0.3, 9), "steps", "h2o has more than window"),
        ((0.0, -0.1, 0.1, 9), "attention_recall", "not distinguished: the interval contains 0"),
        (
            (0.2, 0.1, 0.3, 4),
            "attention_recall",
            "not distinguished: fewer than 5 samples, 4 (units)",
        ),
        (
            (0.2, float("nan"), float("nan"), 1),
            "attention_recall",
            "fewer than 5 samples, 1 (units)",
        ),
    ],
)
def test_a_comparison_says_which_policy_is_better_or_that_none_is(row, metric, verdict):
    *numbers, samples = row
    about = kvsim.about(compared([["20%", "stream", *numbers, samples, "units"]], metric))
    for shown in (repr(about), about._repr_html_()):
        assert verdict in shown and "budget 20%, mode stream" in shown


def test_each_of_several_policies_has_its_verdict():
    rows = [[b, 64, "stream", 0.2, 0.1, 0.3, 9, "units"] for b in ("tova", "lru")]
    shown = repr(kvsim.about(compared(rows, b=None)))
    assert "better than tova" in shown and "better than lru" in shown


@pytest.mark.parametrize("frame", [pd.DataFrame({"budget": [1]}), 3, None])
def test_what_has_no_meaning_is_refused_in_one_line(frame):
    with pytest.raises(kvsim.UsageError, match="expected a frame of this package"):
        kvsim.about(frame)


def test_results_in_a_list_are_a_line_each_in_ipython(result_file):
    pretty = pytest.importorskip("IPython.lib.pretty")
    results = kvsim.load(result_file.path)
    line = f"kvsim.Results({str(results.path)!r})"
    assert pretty.pretty([results]) == f"[{line}]"
    assert pretty.pretty(results) == repr(results)
