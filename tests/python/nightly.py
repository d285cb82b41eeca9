"""Whether tests look at all of their inputs, as tests/support/nightly.h says it of those in C++."""

import os


def sample_of(sample, everything):
    """The sample, which every assertion still sees; by night, with KVSIM_NIGHTLY, everything."""
    return everything if "KVSIM_NIGHTLY" in os.environ else sample
