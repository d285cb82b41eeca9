"""The picture of keys and values (SubGen Figure 1) and its methods."""

import sys
import types

import numpy as np
import pytest

from conftest import comparison_of, drawing_of, write_trace
from drawn_figures import figure_of
from kvsim.report.figures import Missing
from kvsim.report.numbers import embedding
from kvsim.report.page import plans
from kvsim.report.pictures import render
from kvsim.report.style import LIGHT, NARROW, THEMES, WIDE

NAME = "keys-and-values"


@pytest.fixture
def without_sklearn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)  # importing it raises ImportError
    monkeypatch.setitem(sys.modules, "sklearn.manifold", None)


@pytest.fixture
def stand_in(monkeypatch):
    """A module in the place of scikit-learn, whose t-SNE returns the first two coordinates."""
    asked = []

    class Tsne:
        def __init__(self, **options):
            asked.append(options)

        def fit_transform(self, points):
            return points[:, :2]

    manifold = types.ModuleType("sklearn.manifold")
    manifold.TSNE = Tsne
    monkeypatch.setitem(sys.modules, "sklearn", types.ModuleType("sklearn"))
    monkeypatch.setitem(sys.modules, "sklearn.manifold", manifold)
    return asked


def test_principal_components_are_those_of_points_on_a_line():
    # Along (3, 4) / 5, at -1, 0 and 2 of it, with 0.1 across at the last.
    points = np.array([[-0.6, -0.8, 7], [0, 0, 7], [1.2, 1.6, 7]])
    places = embedding.principal_components(points)
    assert places[:, 0] == pytest.approx(np.array([-1, 0, 2]) - 1 / 3)
    assert places[:, 1] == pytest.approx([0, 0, 0], abs=1e-12)
    assert embedding.principal_components(np.ones((1, 4))).tolist() == [[0, 0]]


def test_principal_components_have_the_variances_of_the_covariance():
    points = np.random.default_rng(1).normal(size=(50, 5)) * [5, 3, 1, 1, 1]
    places = embedding.principal_components(points)
    eigenvalues = np.linalg.eigvalsh(np.cov(points.T))
    assert places.var(axis=0, ddof=1) == pytest.approx(eigenvalues[::-1][:2])


def test_greedy_centres_start_at_the_first_point_and_go_to_the_farthest():
    points = np.array([[0.0], [1], [10], [4], [10]])
    assert embedding.greedy_centres(points, 3).tolist() == [0, 2, 3]
    assert embedding.greedy_centres(points, 9).tolist() == [0, 2, 3, 1, 0]


def test_the_method_is_tsne_where_scikit_learn_is_there(stand_in):
    method, embed = embedding.plane()
    points = np.random.default_rng(2).normal(size=(20, 4))
    assert method == "t-SNE" and (embed(points) == points[:, :2]).all()
    assert stand_in == [{"n_components": 2, "perplexity": 19 / 3, "init": "pca", "random_state": 0}]
    embed(np.zeros((200, 4)))
    assert stand_in[1]["perplexity"] == 30
    embed(np.zeros((3, 4)))  # too few for neighbourhoods
    assert len(stand_in) == 2


def test_tsne_itself_gives_the_same_places_again():
    pytest.importorskip("sklearn")
    method, embed = embedding.plane()
    points = np.random.default_rng(2).normal(size=(40, 4))
    assert method == "t-SNE" and (embed(points) == embed(points)).all()


def test_without_scikit_learn_the_picture_says_that_it_is_pca(result_file, without_sklearn):
    write_trace(result_file.path.parent / "trace.h5")
    drawing = drawing_of(result_file.sweep().clusters().path, NAME)
    assert "on a plane (PCA)" in drawing.caption and "kvsim[tsne]" in drawing.caption
    assert "layer/KV head 0/0, 1/1: 40 of 40 tokens" in drawing.caption
    assert drawing.alt.startswith("PCA: with 16 centres the farthest key is at 0.40 of")
    for theme in THEMES:
        for shape in (WIDE, NARROW):
            figure = figure_of(drawing, theme, shape)
            titles = [axes.get_title() for axes in figure.axes]
            assert sorted(titles) == ["keys 0/0", "keys 1/1", "values 0/0", "values 1/1"]
            for axes in figure.axes:
                tokens, centres = (part.get_offsets() for part in axes.collections)
                assert len(tokens) == 40 and len(centres) == 16
                assert {tuple(c) for c in centres} <= {tuple(t) for t in tokens}


def test_with_it_the_picture_is_of_tsne(result_file, stand_in):
    write_trace(result_file.path.parent / "trace.h5")
    drawing = drawing_of(result_file.sweep().clusters().path, NAME)
    assert "(t-SNE)" in drawing.caption and "kvsim[tsne]" not in drawing.caption
    assert not stand_in  # nothing is computed before it is drawn
    figure_of(drawing)
    figure_of(drawing, shape=NARROW)
    assert len(stand_in) == 4  # two layers, keys and values, once


def test_drawn_again_it_is_the_same_picture(result_file, without_sklearn):
    write_trace(result_file.path.parent / "trace.h5")
    path = result_file.sweep().clusters().path
    once, again = (render(drawing_of(path, NAME), LIGHT, WIDE, ["png", "svg"]) for _ in range(2))
    assert once == again


def test_without_table_or_trace_it_says_what_is_missing(result_file):
    def missing():
        found = plans(comparison_of(result_file.path))
        return next(plan for plan in found if isinstance(plan, Missing) and plan.name == NAME)

    result_file.sweep()
    assert "--what clusters" in missing().command
    result_file.clusters()
    assert "trace.h5 is not there" in missing().why and "--trace" in missing().command
