"""Whether tests look at all of their inputs, as tests/support/nightly.h says it of those in C++."""

import os
import zlib

import pytest

# Of a test that is marked so, a third of the parameters is tried by day: see conftest.py.
a_third_by_day = pytest.mark.a_third_by_day


def taken_by_day(items):
    """A third of the items of marked tests, and all others.

    Which third depends on the names of the parameters alone, so that every process takes the same.
    """
    kinds = {}
    for item in items:
        if item.get_closest_marker(a_third_by_day.name):
            kinds.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out = set()
    for alike in kinds.values():
        alike.sort(key=lambda item: zlib.crc32(item.nodeid.partition("[")[2].encode()))
        left_out.update(item.nodeid for item in alike[(len(alike) + 2) // 3 :])
    return [item for item in items if sample_of(item.nodeid not in left_out, True)]


def sample_of(sample, everything):
    """The sample, which every assertion still sees; by night, with KVSIM_NIGHTLY, everything."""
    return everything if "KVSIM_NIGHTLY" in os.environ else sample
