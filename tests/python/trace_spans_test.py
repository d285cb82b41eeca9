"""Labelled parts of a trace of arrays."""

import io

import numpy as np
import pytest

import kvsim
from trace_format import checked_id


def arrays():
    return np.random.default_rng(3).normal(size=(3, 2, 8, 4))


def test_a_trace_of_arrays_has_spans_and_the_id_of_a_file():
    spans = [(0, 3, "needle"), (7, 8, "answer"), (0, 8, "\u00e9t\u00e9")]
    trace = kvsim.Trace.from_arrays(*arrays(), spans=spans)
    assert trace.sequences[0].spans == tuple(spans)
    assert trace.sequences[0].spans[1].label == "answer"
    assert checked_id(io.BytesIO(trace._opened.image())) == trace.trace_id
    assert kvsim.Trace.from_arrays(*arrays()).sequences[0].spans == ()
    assert kvsim.Trace.from_arrays(*arrays()).trace_id != trace.trace_id


@pytest.mark.parametrize("span", [(0, 9, "a"), (3, 3, "a"), (-1, 2, "a"), (0, 1), "abc", (0, 1, 2)])
def test_a_trace_of_arrays_refuses_other_spans(span):
    with pytest.raises(kvsim.UsageError, match="spans: expected"):
        kvsim.Trace.from_arrays(*arrays(), spans=[span])
