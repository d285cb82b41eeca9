"""Sweeps in executors of other packages."""

import os
import random
import signal
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


def test_a_client_of_dask_is_no_executor():
    class Client:
        def submit(self):
            pass

        def get_executor(self):
            pass

    with pytest.raises(kvsim.UsageError, match=r"client\.get_executor"):
        kvsim.sweep(trace(), "h2o", 6, executor=Client())
