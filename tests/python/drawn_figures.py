"""Figures of the report as tests look at them: laid out, in every shape, with nothing cut."""

import itertools
import re

import matplotlib
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from conftest import comparison_of
from kvsim.report.figures import Missing
from kvsim.report.page import plans
from kvsim.report.style import COLUMN, LIGHT, NARROW, TEXT, WIDE, settings
from nightly import sample_of


def missing_of(path, **choice):
    """What the report cannot draw of a file, by title."""
    found = plans(comparison_of(path, **choice))
    return {plan.title: plan for plan in found if isinstance(plan, Missing)}


def figure_of(drawing, theme=LIGHT, shape=WIDE):
    with matplotlib.rc_context(settings(theme)):
        figure = drawing.draw(theme, shape)
        FigureCanvasAgg(figure).draw()  # lays it out
    return figure


def in_shapes(names):
    """Each figure in every shape; in the sample in one or two of them."""
    pairs = list(itertools.product(names, (WIDE, NARROW, COLUMN, TEXT)))
    chosen = sample_of(pairs[::3], pairs)
    ids = [f"{name}-{shape.name}" for name, shape in chosen]
    return pytest.mark.parametrize(("name", "shape"), chosen, ids=ids)


def require_named_axes(figure):
    """Axes are named with units, and nothing is cut."""
    labels = [text for axes in figure.axes for text in (axes.get_xlabel(), axes.get_ylabel())]
    assert any(labels) and all(re.search(r"\(.+\)$", text) for text in labels if text), labels
    require_nothing_cut(figure)


def require_nothing_cut(figure):
    width, height = figure.canvas.get_width_height()
    for axes in figure.axes:
        if axes.get_visible():
            box = axes.get_tightbbox()  # with all its texts, the names of its axes among them
            assert box.x0 >= -1 and box.x1 <= width + 1, (axes, box)
            assert box.y0 >= -1 and box.y1 <= height + 1, (axes, box)
