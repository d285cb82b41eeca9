"""Sweeps whose workers die."""

import contextlib
import multiprocessing
import os
import random
import signal
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

import kvsim
from executor_support import HEADS, LAYERS, Deadly, Slow, same, trace
from kvsim.executors.pool import Died, Pool
from nightly import sample_of

POLICIES, BUDGETS = ["window", Slow], [6, 9]


@pytest.fixture(autouse=True)
def single_items(monkeypatch):
    monkeypatch.setattr(kvsim.executors.run, "TASK_SECONDS", 1e-6)


@pytest.fixture
def deadly(tmp_path):
    class Marked(Deadly):
        name = "deadly"
        deaths = str(tmp_path / "deaths")

    return Marked


def deaths_by(policy):
    return len(Path(policy.deaths).read_text().splitlines())


class Killer:
    """Kills one of the children of this process at each of the first reports of progress."""

    def __init__(self, times):
        self.times = times
        self.random = random.Random(2)

    def __call__(self, done, total):
        found = [process.pid for process in multiprocessing.active_children()]
        if self.times == 0 or not found:
            return
        with contextlib.suppress(ProcessLookupError):  # it went down with its pool
            os.kill(self.random.choice(found), signal.SIGKILL)
            self.times -= 1


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_that_are_killed_change_no_row(method):
    killer = Killer(sample_of(2, 4))
    with ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
        frame = kvsim.sweep(trace(), POLICIES, BUDGETS, executor=pool, progress=killer)
    assert killer.times == 0
    same(frame, kvsim.sweep(trace(), POLICIES, BUDGETS))


def die_later(_):
    time.sleep(0.5)  # until the next task is being sent
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pool_whose_worker_dies_while_a_large_task_is_sent_comes_to_its_end(method):
    executor = ProcessPoolExecutor(1, multiprocessing.get_context(method))
    pool = Pool(executor)
    for key in range(3):
        pool.start(key, die_later, b"more than a pipe holds" * 100_000)
    manager = executor._executor_manager_thread
    assert isinstance(pool.ended(wait=True)[1], Died)
    manager.join(timeout=60)
    assert not manager.is_alive()
    assert pool.close() == []


def test_a_unit_that_kills_its_workers_is_skipped_and_the_rest_is_stored(deadly, tmp_path):
    file = tmp_path / "results.sqlite"
    marked = trace((2, 1))
    with ProcessPoolExecutor(2) as pool, pytest.raises(kvsim.WorkerError) as raised:
        kvsim.sweep(marked, ["window", deadly], BUDGETS, executor=pool, output=file)
    assert "sequence layer 2 head 1;" in str(raised.value)
    assert "4 replays were skipped" in str(raised.value) and "\n" not in str(raised.value)
    assert deaths_by(deadly) == 4  # once in the pool, where it may have been a neighbour's doing
    expected = kvsim.sweep(marked, "window", BUDGETS)
    units = LAYERS * HEADS - 1
    assert len(kvsim.load(file).replay) == units * 4
    assert len(raised.value.frame) == units * 4 < 2 * len(expected)
    assert kvsim.load(file)["run"].finished.tolist() == [0]


def test_a_deadly_unit_is_told_from_its_neighbours_in_a_task(deadly, monkeypatch):
    monkeypatch.setattr(kvsim.executors.run, "TASK_SECONDS", 1)
    with ProcessPoolExecutor(1) as pool, pytest.raises(kvsim.WorkerError) as raised:
        kvsim.sweep(trace((0, 1), (3, 0)), deadly, BUDGETS, executor=pool)
    assert "head 1; sequence layer 3 head 0; all" in str(raised.value)
    assert len(raised.value.frame) == (LAYERS * HEADS - 2) * 2


def test_a_pool_that_is_broken_already_is_replaced():
    pool = ProcessPoolExecutor(1)
    pool.submit(os._exit, 1).exception()
    same(kvsim.sweep(trace(), "h2o", 6, executor=pool), kvsim.sweep(trace(), "h2o", 6))


def test_new_workers_are_made_as_those_of_the_pool(tmp_path):
    file = tmp_path / "workers"
    killer = Killer(1)
    with ProcessPoolExecutor(2, initializer=tell, initargs=(file,)) as pool:
        kvsim.sweep(trace(), Slow, BUDGETS, executor=pool, progress=killer)
    assert len(file.read_text().splitlines()) > 2


def tell(file):
    with file.open("a") as pids:
        pids.write(f"{os.getpid()}\n")


@pytest.mark.parametrize("tasks", [1, 1e-6])
def test_a_pool_whose_workers_cannot_start_says_so(tasks, monkeypatch):
    monkeypatch.setattr(kvsim.executors.run, "TASK_SECONDS", tasks)
    with ProcessPoolExecutor(2, initializer=fail) as pool, pytest.raises(kvsim.KvsimError) as error:
        kvsim.sweep(trace(), "h2o", 6, executor=pool)
    assert "workers cannot start" in str(error.value) and "\n" not in str(error.value)
    assert not isinstance(error.value, kvsim.WorkerError)


def fail():
    raise LookupError("no licence")


def test_workers_that_start_at_last_get_all_of_the_work(tmp_path):
    file = tmp_path / "started"
    with ProcessPoolExecutor(1, initializer=fail_twice, initargs=(file,)) as pool:
        same(kvsim.sweep(trace(), "h2o", 6, executor=pool), kvsim.sweep(trace(), "h2o", 6))
    assert len(file.read_text().splitlines()) > 2


def fail_twice(file):
    tell(file)
    if len(file.read_text().splitlines()) <= 2:
        fail()
