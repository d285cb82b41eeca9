"""Sweeps whose units other processes replay."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

import kvsim
import written_policies as written
from conftest import SAMPLE
from nightly import sample_of

POLICIES = [
    "h2o", "spatten", "tova:scope=layer", "labelled=window", "h2o@persistence", "certificate",
    "optimal", written.H2O, "written-tova:scope=layer",
]  # fmt: skip
CHOSEN = {"sequences": "held-out-text", "layers": "0-2"}


class OfThisFile(kvsim.Policy):
    def __init__(self, budget, seed=0, factor=1.0):
        self.random = np.random.default_rng(seed)
        self.factor = factor

    def update(self, step, scores):
        scores[-1] = self.factor * self.random.random()


class Raises(kvsim.Policy):
    def update(self, step, scores):
        raise LookupError("nothing there")


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch):
    """The sample is a second of work, which would be one task."""
    monkeypatch.setattr(kvsim.executors.run, "TASK_SECONDS", 0.02)


@pytest.fixture(scope="module", params=sample_of(["spawn"], ["fork", "spawn"]))
def pool(request):
    with ProcessPoolExecutor(2, multiprocessing.get_context(request.param)) as executor:
        yield executor


def swept(policies, budgets=(9, "20%"), **options):
    return kvsim.sweep(SAMPLE, policies, budgets, **{**CHOSEN, **options})


def same(left, right):
    pd.testing.assert_frame_equal(left, right, check_exact=True)


def alike(left, right):
    """Of runs that also replay other policies, which moves the last bits of errors."""
    left, right = left.drop(columns="run_id"), right.drop(columns="run_id")
    pd.testing.assert_frame_equal(left, right, rtol=1e-4, atol=1e-6)


def test_rows_are_those_of_one_process(pool):
    same(swept(POLICIES, executor=pool), swept(POLICIES, threads=2))


def test_classes_of_a_script_reach_the_workers(pool):
    class Nested(kvsim.Policy):
        def update(self, step, scores):
            scores[:] = -step.tokens

    policies = [OfThisFile, "ofthisfile:factor=-1", Nested]
    same(swept(policies, executor=pool), swept(policies))


def test_a_class_that_is_defined_again_replaces_the_earlier_one_in_workers(pool):
    def made(sign):
        class Signed(kvsim.Policy):
            def update(self, step, scores):
                scores[:] = sign * step.tokens

        return Signed

    for sign in (1, -1, 1):
        same(swept(made(sign), executor=pool), swept(made(sign)))


def test_a_trace_in_memory_reaches_the_workers(pool):
    random = np.random.default_rng(1)
    arrays = [random.normal(size=(2, 64, 8)) for _ in range(3)]
    trace = kvsim.Trace.from_arrays({0: arrays, 1: arrays}, prompt_length=20)
    left, right = (
        kvsim.sweep(trace, ["h2o", written.Window], [9], mode="prefill", executor=executor)
        for executor in (pool, None)
    )
    same(left, right)


def test_options_reach_the_workers(pool):
    options = {"mode": "prefill", "eviction_interval": "never", "seed": 3, "allocate": "pyramid"}
    policies = ["random", "snapkv:window=4", OfThisFile, "h2o@uniform"]
    same(swept(policies, executor=pool, **options), swept(policies, **options))


def test_an_executor_of_threads_works_too():
    with ThreadPoolExecutor(2) as threads:
        same(swept(["h2o", OfThisFile], executor=threads), swept(["h2o", OfThisFile]))


def test_what_the_output_holds_is_not_replayed_again(pool, tmp_path):
    file = tmp_path / "results.sqlite"
    first = swept("h2o", [9], output=file)
    done = []
    frame = swept(
        ["h2o", "window"], [9, 12], executor=pool, output=file,
        progress=lambda finished, total: done.append((finished, total)),
    )  # fmt: skip
    kept = frame[(frame.policy.str.startswith("h2o")) & (frame.budget == 9)]
    assert set(kept.run_id) == set(first.run_id)
    assert len(set(frame.run_id)) == 2
    assert done[-1] == (len(frame), len(frame)) and done[0][0] > len(first)
    stored = kvsim.load(file).replay
    assert len(stored) == len(frame)
    alike(frame, swept(["h2o", "window"], [9, 12]))


def test_what_a_worker_raises_is_raised_with_its_place(pool):
    with pytest.raises(LookupError, match="nothing there") as raised:
        swept(Raises, executor=pool)
    notes = " ".join(raised.value.__notes__)
    assert "policy raises at budget" in notes
    assert "in a worker, on held-out-text layer" in notes


def test_bad_usage_is_found_before_work_begins(pool):
    with pytest.raises(kvsim.UsageError, match="did you mean"):
        swept("h2oo", executor=pool)


def test_a_class_that_cannot_travel_says_what_to_do(pool):
    lock = multiprocessing.Lock()

    class Locked(kvsim.Policy):
        def update(self, step, scores):
            with lock:
                scores[:] = step.tokens

    with pytest.raises(kvsim.UsageError, match="cannot send policy locked to workers"):
        swept(Locked, executor=pool)


def test_rows_that_cannot_be_stored_are_not_stored_again(monkeypatch):
    add, added = kvsim._engine.PartedSweep.add, []

    def refuse_first(sweep, done):
        added.extend(tuple(task.items) for task, _ in done)
        if len(added) == len(done):
            raise ArithmeticError("row beats a bound")
        add(sweep, done)

    monkeypatch.setattr(kvsim._engine.PartedSweep, "add", refuse_first)
    with ThreadPoolExecutor(2) as threads, pytest.raises(ArithmeticError, match="beats a bound"):
        swept("h2o", executor=threads)
    assert added and len(set(added)) == len(added)
