"""kvsim.compare, against the bootstrap written out."""

import numpy as np
import pandas as pd
import pytest

import kvsim
from conftest import H2O, needs_program

pytestmark = needs_program
COLUMNS = ["budget", "mode", "difference", "low", "high", "samples", "sampled"]
BITS = (1 << 64) - 1


def mixed(x):
    """SplitMix64, as sim/base/random_bits.h has it."""
    x = (x + 0x9E3779B97F4A7C15) & BITS
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & BITS
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & BITS
    return x ^ (x >> 31)


def interval_of(samples):
    """The 95% percentile interval of 2,000 draws with seed 0."""
    means = []
    for draw in range(2000):
        start = mixed(mixed(0) ^ draw)
        numbers = [mixed(mixed(start) ^ i) >> 32 for i in range(len(samples))]
        means.append(np.mean([samples[number * len(samples) >> 32] for number in numbers]))
    return np.percentile(means, [2.5, 97.5])


def write_sequences(result_file, count, difference):
    """Two heads of each sequence; h2o is ahead of window by `difference(sequence, head)`."""
    for sequence in range(count):
        for head in range(2):
            for policy, ahead in ((H2O, difference(sequence, head)), ("window", 0)):
                result_file.replay(
                    policy, 8, kv_head=head, sequence=f"text{sequence}",
                    attention_recall=0.5 + ahead,
                )  # fmt: skip
    return result_file.path


@pytest.mark.parametrize("count", [3, 6])
def test_the_interval_is_that_of_the_paired_bootstrap(result_file, count):
    ahead = np.random.default_rng(count).normal(0.02, 0.05, size=(count, 2))
    path = write_sequences(result_file, count, lambda sequence, head: ahead[sequence, head])
    samples = list(ahead.mean(axis=1) if count >= 5 else ahead.ravel())
    frame = kvsim.compare(path, "h2o", "window")
    assert list(frame.columns) == COLUMNS
    (row,) = frame.itertuples()
    assert (row.budget, row.mode, row.samples) == (8, "stream", len(samples))
    assert row.sampled == ("sequences" if count >= 5 else "units")
    assert row.difference == pytest.approx(np.mean(samples))
    assert [row.low, row.high] == pytest.approx(interval_of(samples))


def test_several_policies_are_named(result_file):
    results = kvsim.load(result_file.sweep().path)
    frame = kvsim.compare(results, "window", ["h2o", "tova"], budget="20%")
    assert list(frame.columns) == ["b", *COLUMNS]
    assert list(frame["b"]) == [H2O, "tova:scope=head,score=cached"]
    assert np.allclose(frame["difference"], [-0.05, -0.1])


def test_a_single_unit_has_no_interval(result_file):
    path = result_file.sweep(layers=1, kv_heads=1).path
    frame = kvsim.compare(path, "h2o", "window", metric="miss_rate", budget=8, mode="stream")
    assert frame["difference"].item() == pytest.approx(-0.05)
    assert frame[["low", "high"]].isna().all(axis=None)


def test_rows_without_a_partner_are_told(result_file):
    path = result_file.sweep().path
    result_file.replay("window", 8, layer=7)
    with pytest.warns(kvsim.ComparisonWarning, match="left out 1 row.* of window"):
        kvsim.compare(path, "h2o", "window")


def test_what_the_program_refuses_is_raised(result_file):
    path = result_file.sweep().path
    with pytest.raises(kvsim.ProgramError, match="did you mean 'window'"):
        kvsim.compare(path, "h2o", "windows")
    with pytest.raises(kvsim.ProgramError, match="attention_recall"):
        kvsim.compare(path, "h2o", "window", metric="recall")


def test_a_frame_is_refused_with_the_fix():
    with pytest.raises(kvsim.UsageError, match=r"found a DataFrame; .*output=FILE\) writes"):
        kvsim.compare(pd.DataFrame({"policy": ["window"]}), "window", "h2o")
