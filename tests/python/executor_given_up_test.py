"""Which work of a sweep is given up when workers die, and which never is."""

from concurrent.futures import Future

import pytest

import kvsim
from executor_support import HEADS, LAYERS, same, trace

UNITS = LAYERS * HEADS


@pytest.fixture(autouse=True)
def single_items(monkeypatch):
    monkeypatch.setattr(kvsim.executors.run, "TASK_SECONDS", 1e-6)


class KilledWorker(Exception):
    """As distributed's, which stands for several deaths."""


class UncompletedJobError(Exception):
    """As submitit's, of one job."""


class FailedJobError(UncompletedJobError):
    """As submitit's, of what a job raised."""


KilledWorker.__module__ = "distributed.scheduler"
UncompletedJobError.__module__ = FailedJobError.__module__ = "submitit.core.utils"


class Doomed:
    """An executor whose tasks on a layer of `layers` end in an error; it counts all."""

    def __init__(self, layers, error=KilledWorker, doomed=lambda part: True):
        self.layers, self.error, self.doomed, self.calls = layers, error, doomed, 0

    def submit(self, function, *arguments):
        self.calls += 1
        future = Future()
        parts = filter(self.doomed, arguments[2])
        if any(unit[0] in self.layers for _, _, units in parts for unit in units):
            future.set_exception(self.error())
        else:
            future.set_result(function(*arguments))
        return future


@pytest.mark.parametrize(("error", "attempts"), [(KilledWorker, 2), (UncompletedJobError, 3)])
def test_what_a_scheduler_gives_up_is_tried_again(error, attempts):
    executor = Doomed([1], error)
    with pytest.raises(kvsim.WorkerError, match="layer 1 head 0; sequence layer 1 head 1; all"):
        kvsim.sweep(trace(), "h2o", 6, executor=executor)
    assert executor.calls == (LAYERS - 1) * HEADS + attempts * HEADS


def test_a_job_of_submitit_that_failed_otherwise_ends_the_sweep():
    executor = Doomed([1], FailedJobError)
    with pytest.raises(FailedJobError) as raised:
        kvsim.sweep(trace(), "h2o", 6, executor=executor)
    assert "sequence layer 1 head 0" in " ".join(raised.value.__notes__)
    assert executor.calls == UNITS


@pytest.mark.parametrize("seconds", [1e-6, 1])
def test_units_that_kill_workers_keep_no_other_from_being_done(seconds, monkeypatch):
    monkeypatch.setattr(kvsim.executors.run, "TASK_SECONDS", seconds)
    monkeypatch.setattr(kvsim.executors.run, "BATCH", 1)
    monkeypatch.setattr(kvsim.executors.attempts, "MOST_FRUITLESS", 3)
    lengths = {0: 96, 1: 96, 2: 96, 3: 48}  # the largest units go first, and are deadly
    traces = [trace(tokens=lengths[seed], seed=seed) for seed in lengths]
    executor = Doomed(range(LAYERS), doomed=lambda part: part[0] < 3)
    with pytest.raises(kvsim.WorkerError, match=f"{3 * UNITS} replays were skipped") as raised:
        kvsim.sweep(traces, "h2o", 6, executor=executor)
    frame = raised.value.frame
    assert len(frame) == UNITS and set(frame.trace_id) == {traces[3].trace_id}


def test_when_nothing_can_be_replayed_that_is_found_out_with_few_units(monkeypatch):
    monkeypatch.setattr(kvsim.executors.attempts, "MOST_FRUITLESS", 3)
    executor = Doomed(range(LAYERS))
    with pytest.raises(kvsim.WorkerError, match="nothing can be replayed") as raised:
        kvsim.sweep(trace(), "h2o", 6, executor=executor)
    killers, untried = str(raised.value).split("not tried again: ")
    assert killers.count("sequence layer") == 3 and "layer 0 head 0" in killers
    assert untried.count("sequence layer") == 5 and "layer 3 head 1" in untried
    assert len(raised.value.frame) == 0
    assert executor.calls == UNITS + 3  # KilledWorker counts twice


def test_a_unit_that_succeeds_alone_lets_all_others_be_tried(monkeypatch):
    monkeypatch.setattr(kvsim.executors.attempts, "MOST_FRUITLESS", 1)
    executor = Doomed(range(LAYERS), doomed=lambda part: executor.calls <= UNITS)
    frame = kvsim.sweep(trace(), "h2o", 6, executor=executor)
    same(frame, kvsim.sweep(trace(), "h2o", 6))
    assert executor.calls == 2 * UNITS
