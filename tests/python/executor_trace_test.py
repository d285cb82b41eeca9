"""The traces, classes and options that workers get."""

import os
import pickle
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest

import kvsim
from executor_support import same, trace


@pytest.fixture
def replaced(tmp_path):
    """A trace whose path has come to name another one."""
    kvsim.synth(tmp_path / "trace.h5", tokens=30, seed=1)
    opened = kvsim.Trace(tmp_path / "trace.h5")
    kvsim.synth(tmp_path / "other.h5", tokens=30, seed=2)
    (tmp_path / "other.h5").replace(tmp_path / "trace.h5")
    return opened


def test_a_worker_that_opens_another_file_says_so(replaced):
    found = kvsim.Trace(replaced.path).trace_id
    with ProcessPoolExecutor(1) as pool, pytest.raises(kvsim.DataError) as raised:
        kvsim.sweep(replaced, "h2o", 6, executor=pool)
    message = str(raised.value)
    assert message.startswith(f"{replaced.path}: trace_id: expected {replaced.trace_id}, found")
    assert found in message and "copy the trace to" in message and "\n" not in message


def test_a_pickled_trace_is_another_one_nowhere(replaced, tmp_path):
    with pytest.raises(kvsim.DataError, match="another file under that path"):
        pickle.loads(pickle.dumps(replaced))
    (tmp_path / "trace.h5").unlink()
    kvsim.synth(tmp_path / "trace.h5", tokens=30, seed=1)
    assert pickle.loads(pickle.dumps(replaced)).trace_id == replaced.trace_id


def test_rows_name_the_trace_as_the_caller_did(tmp_path, monkeypatch):
    kvsim.synth(tmp_path / "trace.h5", tokens=30)
    monkeypatch.chdir(tmp_path)
    with ProcessPoolExecutor(1, initializer=os.chdir, initargs=("/",)) as pool:
        frame = kvsim.sweep("trace.h5", "h2o", 6, executor=pool)
    assert set(frame.trace) == {"trace.h5"}
    same(frame, kvsim.sweep("trace.h5", "h2o", 6))


def test_several_traces_of_which_two_are_the_same(tmp_path):
    paths = [tmp_path / name for name in ("a.h5", "b.h5", "c.h5")]
    for path, seed in zip(paths, (1, 1, 2), strict=True):
        kvsim.synth(path, tokens=30, seed=seed)
    with ThreadPoolExecutor(2) as threads:
        same(kvsim.sweep(paths, "h2o", 6, executor=threads), kvsim.sweep(paths, "h2o", 6))


def test_large_traces_in_memory_do_not_travel(monkeypatch):
    monkeypatch.setattr(kvsim.executors.job, "MOST_IN_MEMORY", 10_000)
    with ThreadPoolExecutor(1) as threads, pytest.raises(kvsim.UsageError) as raised:
        kvsim.sweep(trace(), "h2o", 6, executor=threads)
    assert "write the trace to a file that workers can open" in str(raised.value)


def test_all_that_travels_at_once_is_bounded_too(monkeypatch):
    monkeypatch.setattr(kvsim.executors.run, "TASK_SECONDS", 1e-6)
    monkeypatch.setattr(kvsim.executors.job, "MOST_SENT", 100_000)  # the trace has 12 KiB
    with ThreadPoolExecutor(1) as threads:
        kvsim.sweep(trace(), "h2o", 6, executor=threads)  # which gets them one by one
        with pytest.raises(kvsim.UsageError, match=r"found 8 tasks with .* write the trace to a f"):
            kvsim.sweep(trace(), "h2o", 6, executor=Other(threads))


class Other:
    def __init__(self, executor):
        self.submit = executor.submit


def test_a_worker_with_another_kvsim_says_so(monkeypatch):
    with ProcessPoolExecutor(1) as pool, pytest.raises(kvsim.KvsimError) as raised:
        pool.submit(os.getpid).result()  # the worker is there before the version changes
        monkeypatch.setattr(kvsim._engine, "version", lambda: "9.0")
        kvsim.sweep(trace(), "h2o", 6, executor=pool)
    assert "expected kvsim 9.0 in all workers, found 0." in str(raised.value)


def threads_of_a_worker(folder, least=1, **options):
    """How many threads have replayed a unit of a task that has eight; they wait for `least`."""

    class Telling(kvsim.Policy):
        def update(self, step, scores):
            (folder / str(threading.get_native_id())).touch()
            end = time.monotonic() + 60
            while len(list(folder.iterdir())) < least:
                if time.monotonic() > end:
                    raise TimeoutError(f"there are fewer than {least} threads")
                time.sleep(0.001)

    folder.mkdir()
    with ProcessPoolExecutor(1, initializer=os.putenv, initargs=("OMP_NUM_THREADS", "4")) as pool:
        kvsim.sweep(trace(), Telling, 6, executor=pool, **options)
    return len(list(folder.iterdir()))


def test_a_worker_has_one_thread_unless_it_is_given_more(tmp_path):
    assert threads_of_a_worker(tmp_path / "one") == 1
    assert threads_of_a_worker(tmp_path / "more", least=2, threads=8) > 1
