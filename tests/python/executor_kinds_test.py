"""Sweeps in executors of other packages."""

import contextlib
import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from distributed import Client, LocalCluster
from submitit import DebugExecutor, LocalExecutor

import kvsim
from executor_support import HEADS, LAYERS, Slow, same, trace

POLICIES, BUDGETS = ["window", "spatten", Slow], [6, "20%"]


@pytest.fixture
def single_items(monkeypatch):
    monkeypatch.setattr(kvsim.executors.run, "TASK_SECONDS", 1e-6)


@pytest.fixture
def cluster(tmp_path):
    with (
        LocalCluster(
            4, threads_per_worker=1, processes=True, dashboard_address=None,
            local_directory=tmp_path,
        ) as local,
        Client(local) as client,
    ):  # fmt: skip
        yield client


def test_workers_of_dask_that_are_killed_change_no_row(cluster, single_items):
    chosen, kills = random.Random(1), []

    def kill(done, total):
        found = [nanny.pid for nanny in cluster.cluster.workers.values() if nanny.pid]
        if len(kills) < 4 and found:
            kills.append(chosen.choice(found))
            with contextlib.suppress(ProcessLookupError):  # its nanny has ended it
                os.kill(kills[-1], signal.SIGKILL)

    frame = kvsim.sweep(trace(), POLICIES, BUDGETS, executor=cluster.get_executor(), progress=kill)
    assert len(kills) == 4
    same(frame, kvsim.sweep(trace(), POLICIES, BUDGETS))


class Handle:
    """What a job of submitit can do, and no more."""

    def __init__(self, future):
        self.done, self.result, self.cancel = future.done, future.result, future.cancel


class Polled:
    def __init__(self, threads):
        self.threads, self.sent = threads, 0

    def submit(self, function, *arguments):
        self.sent += 1
        return Handle(self.threads.submit(function, *arguments))


def test_futures_that_do_not_tell_when_they_end_are_looked_at(single_items):
    with ThreadPoolExecutor(2) as threads:
        executor = Polled(threads)
        frame = kvsim.sweep(trace(), POLICIES, BUDGETS, executor=executor)
    assert executor.sent == LAYERS * HEADS + 1  # spatten decides for the model
    same(frame, kvsim.sweep(trace(), POLICIES, BUDGETS))


@pytest.mark.parametrize("executor", [LocalExecutor, DebugExecutor])
def test_jobs_of_submitit_give_the_same_rows(executor, tmp_path, monkeypatch):
    monkeypatch.setattr(kvsim.executors.run, "TASK_SECONDS", 0.01)
    frame = kvsim.sweep(trace(), ["window", "spatten"], 6, executor=executor(tmp_path))
    same(frame, kvsim.sweep(trace(), ["window", "spatten"], 6))


def test_a_job_of_submitit_whose_time_is_over_is_done_again(tmp_path):
    file = tmp_path / "signals"

    class Interrupted(kvsim.Policy):
        """Gets the signal that submitit sends at timeout_min, once."""

        def update(self, step, scores):
            if not file.exists():
                file.touch()
                os.kill(os.getpid(), signal.SIGUSR2)
                time.sleep(0.1)  # until the main thread has seen it

    executor = LocalExecutor(tmp_path)
    executor.update_parameters(timeout_min=1)  # so short that every signal is one of time
    frame = kvsim.sweep(trace(), Interrupted, 6, layers="0", executor=executor)
    assert file.exists() and len(list(tmp_path.glob("*_submitted.pkl"))) == 1 + HEADS
    same(frame, kvsim.sweep(trace(), Interrupted, 6, layers="0"))


class Uncancelled:
    """An executor of which the second job fails and none can be cancelled, as those of submitit."""

    def __init__(self):
        self.sent = 0

    def submit(self, function, *arguments):
        self.sent += 1
        return Job(self.sent == 2)


class Job:
    def __init__(self, fails):
        self.done = lambda: fails

    def result(self):
        raise LookupError("no such job")

    def cancel(self):
        raise FileNotFoundError("scancel")


def test_what_cannot_be_cancelled_hides_no_error(single_items):
    with pytest.raises(LookupError, match="no such job") as raised:
        kvsim.sweep(trace(), "h2o", 6, executor=Uncancelled())
    notes = " ".join(raised.value.__notes__)
    assert f"{LAYERS * HEADS - 1} tasks could not be cancelled" in notes and "scancel" in notes


def test_a_client_of_dask_is_no_executor():
    class Client:
        def submit(self):
            pass

        def get_executor(self):
            pass

    with pytest.raises(kvsim.UsageError, match=r"client\.get_executor"):
        kvsim.sweep(trace(), "h2o", 6, executor=Client())
