"""A result file and a trace show what is in them, in a terminal and in a notebook."""

import numpy as np

import kvsim

HOSTILE = "<script>alert(1)</script>\x1b[2J"


def test_a_result_file_shows_its_tables_policies_and_budgets(result_file):
    results = kvsim.load(result_file.sweep().analyses().path)
    for shown in (repr(results), results._repr_html_()):
        assert str(results.path) in shown
        for name in ("replay", "persistence", "window", "budgets", "stream", "regret"):
            assert name in shown, name
    assert f".{'replay':<{max(map(len, results.tables))}}" in repr(results)
    assert f" {len(results.replay)} " in repr(results)
    assert "models" not in repr(results)  # no table has that column
    assert "<td>view</td>" in results._repr_html_()  # it would be computed row by row


def test_hostile_names_are_escaped(result_file):
    result_file.replay(HOSTILE, 4)
    results = kvsim.load(result_file.path)
    assert "<script>" not in results._repr_html_() and "&lt;script&gt;" in results._repr_html_()
    assert "\x1b" not in repr(results)
    numbers = np.zeros((1, 4, 2), np.float32)
    trace = kvsim.Trace.from_arrays(numbers, numbers, numbers, model="<b>", name="<script>")
    assert "<script>" not in trace._repr_html_() and "<b>&" not in trace._repr_html_()


def test_a_file_that_is_gone_or_damaged_is_shown_as_unreadable(result_file):
    results = kvsim.load(result_file.sweep().path)
    results.path.write_bytes(b"no longer a result file" * 1000)
    assert "unreadable" in repr(results) and "unreadable" in results._repr_html_()
    results.path.unlink()
    assert "unreadable" in repr(results)


def test_long_tables_are_not_counted_to_their_end(result_file, monkeypatch):
    monkeypatch.setattr("kvsim.results.description.MOST_ROWS", 3)
    assert "over 3 " in repr(kvsim.load(result_file.sweep().path))


def test_keys_are_completed_by_the_tables(result_file):
    results = kvsim.load(result_file.path)
    assert results._ipython_key_completions_() == list(results.tables)


def test_a_trace_shows_sequences_heads_and_optional_datasets():
    numbers = np.zeros((2, 5, 4), np.float32)
    trace = kvsim.Trace.from_arrays(
        numbers, numbers[:1], numbers[:1], name="novel", model="tiny", residual=np.ones((5, 3))
    )
    shown = trace._repr_html_()
    for text in ("novel", "tiny", "2, 1", "residual", "<td>5</td>", "float32"):
        assert text in shown, text
