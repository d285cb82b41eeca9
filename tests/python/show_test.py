"""A figure of the report in a notebook has the report's numbers and writes no files."""

import pickle

import numpy as np
import pytest

import kvsim
from conftest import drawing_of
from drawn_figures import figure_of


def lines_of(figure):
    return [
        (line.get_label(), np.asarray(line.get_xydata(), float))
        for axes in figure.axes
        for line in axes.lines
    ]


def test_it_draws_the_numbers_of_the_report(result_file):
    path = result_file.sweep().path
    shown = lines_of(kvsim.show(kvsim.load(path), "recall", policies="h2o;window".split(";")))
    of_report = lines_of(figure_of(drawing_of(path, "recall", policies=("h2o", "window"))))
    assert len(shown) == len(of_report) > 2
    for (label, points), (other, others) in zip(shown, of_report):
        assert label == other or label.startswith("_")
        np.testing.assert_array_equal(points, others)


def test_it_writes_no_files_and_is_a_picture_without_pyplot(result_file):
    path = result_file.sweep().path
    before = sorted(path.parent.iterdir())
    figure = kvsim.show(path)
    assert sorted(path.parent.iterdir()) == before
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert len(lines_of(pickle.loads(pickle.dumps(figure)))) == len(lines_of(figure))


def test_a_figure_that_is_not_there_names_those_that_are(result_file):
    path = result_file.sweep().path
    with pytest.raises(kvsim.UsageError, match=r"has no recal; it has overview, .*recall"):
        kvsim.show(path, "recal")
    with pytest.raises(kvsim.UsageError, match=r"has no persistence; .*kvsim analyze"):
        kvsim.show(path, "persistence")


def test_choices_and_what_is_no_file_are_refused_in_one_line(result_file):
    path = result_file.sweep().path
    with pytest.raises(kvsim.KvsimError, match="has no 99; it has"):
        kvsim.show(path, "recall", budget=99)
    with pytest.raises(kvsim.UsageError, match=r"found a DataFrame; .*output=FILE"):
        kvsim.show(kvsim.load(path).replay)
    with pytest.raises(kvsim.UsageError, match="expected light or dark, found 'blue'"):
        kvsim.show(path, theme="blue")
