"""reference="sample:N": what is measured at N steps, with intervals, in process."""

from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

import kvsim
from conftest import SAMPLE

UNIT = {"sequences": "copied-segment", "layers": 1, "heads": 0}


def test_a_sweep_stores_an_interval_of_every_mean(tmp_path):
    file = tmp_path / "results.sqlite"
    frame = kvsim.sweep(SAMPLE, ["h2o", "window"], [32], reference="sample:12", output=file, **UNIT)
    assert set(frame["mode"]) == {"stream:reference=sample:12"}
    assert set(frame.steps) == {12}
    intervals = kvsim.load(file)["sampled_interval"]
    assert len(intervals) == 2 * 7
    for _, row in frame.iterrows():
        of_row = intervals[intervals.policy == row.policy].set_index("metric")
        for metric, interval in of_row.iterrows():
            assert interval.low <= row[metric] <= interval.high


def test_workers_send_intervals(tmp_path):
    file, parted = tmp_path / "one.sqlite", tmp_path / "parted.sqlite"
    request = {"reference": "sample:12", **UNIT}
    kvsim.sweep(SAMPLE, ["h2o", "window"], [32], output=file, **request)
    with ProcessPoolExecutor(1) as executor:
        kvsim.sweep(SAMPLE, ["h2o", "window"], [32], output=parted, executor=executor, **request)
    there = [kvsim.load(path)["sampled_interval"].drop(columns="run_id") for path in (file, parted)]
    assert there[0].equals(there[1])


def test_a_replay_has_intervals_and_gaps_between_sampled_steps():
    replay = kvsim.replay(
        SAMPLE, "h2o", 32, "copied-segment", layer=1, kv_head=0, reference="sample:12"
    )
    low, high = replay.intervals["attention_recall"]
    assert low <= replay.row.attention_recall <= high
    measured = ~np.isnan(replay.attention_recall[0])
    assert measured.sum() == 12 and measured[-1]
    mean = replay.attention_recall[:, measured].mean()
    assert replay.row.attention_recall == pytest.approx(mean, rel=1e-6)
    full = kvsim.replay(SAMPLE, "h2o", 32, "copied-segment", layer=1, kv_head=0)
    assert full.intervals is None
    assert (full.evicted_after == replay.evicted_after).all()
    assert np.allclose(full.attention_recall[:, measured], replay.attention_recall[:, measured])


def test_more_samples_than_steps_are_refused():
    with pytest.raises(kvsim.UsageError, match="at most the 512 measured steps"):
        kvsim.sweep(SAMPLE, "window", 32, reference="sample:513", **UNIT)
