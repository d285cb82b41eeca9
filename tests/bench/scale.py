"""Holds the model of schedules (kvsim.scale) against sweeps by process pools of 2 and 4 workers.

Tasks sleep for their time, so that two cores do for four workers; all else is real: planning,
sending, packing, the result file, the frame. Each pool has done a sweep before it is timed, so that
its workers are up. Prints a table. It needs the package and its engine.
"""

import argparse
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

import kvsim
import kvsim.executors.run
from kvsim.scale.conditions import Conditions
from kvsim.scale.schedule import Tasks, with_executor
from kvsim.scale.work import planned_work
from run import busy_share

POLICIES, BUDGETS = "window;h2o;lru;tova", "10%,20%,30%,40%,50%"
WORKERS = (2, 4)
SECONDS = {
    "equal": lambda tasks: np.full(tasks, 0.3),
    "uneven": lambda tasks: np.random.default_rng(5).lognormal(-1.6, 0.8, tasks),
}
BRIEF = 0.1  # seconds of a task of the first sweep


def slept(seconds, function, *arguments):
    """The call, in a worker, which takes so long."""
    end = time.perf_counter() + seconds
    result = function(*arguments)
    time.sleep(max(0.0, end - time.perf_counter()))
    return result


class Sleeping(ProcessPoolExecutor):
    """Whose i-th task takes seconds[i]."""

    def sweep(self, trace, seconds, file):
        """Returns the seconds that it took."""
        self._seconds = list(reversed(seconds))
        began = time.perf_counter()
        kvsim.sweep(trace, POLICIES, BUDGETS, executor=self, output=file, progress=False)
        taken = time.perf_counter() - began
        if self._seconds:
            raise SystemExit("bench: error: the executor sent fewer tasks than the model has")
        return taken

    def submit(self, function, *arguments):
        return super().submit(slept, self._seconds.pop(), function, *arguments)


def measure(pools, trace, rows, repeats, folder):
    """Seconds by workers and kind of tasks, in rounds over all cases."""
    taken = {(workers, kind): [] for workers in pools for kind in SECONDS}
    for _ in range(repeats):
        for workers, kind in taken:
            seconds = SECONDS[kind](len(rows))
            with tempfile.TemporaryDirectory(dir=folder) as own:
                spent = pools[workers].sweep(trace, seconds, Path(own) / "r.sqlite")
            taken[workers, kind].append(spent)
    return taken


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=40, help="about how many")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="of the result files (default: TMPDIR)")
    options = parser.parse_args()
    print(f"others used {busy_share():.0%} of the cores just before")
    with tempfile.TemporaryDirectory() as own:
        trace = Path(own) / "trace.h5"
        kvsim.synth(trace, tokens=64, layers=16, kv_heads=8, query_heads=8, head_dim=8)
        work = planned_work([kvsim.Trace(trace)._opened], POLICIES, BUDGETS, {})
        kvsim.executors.run.TASK_SECONDS = work.seconds / options.tasks
        rows = work.tasks().rows
        pools = {workers: Sleeping(workers) for workers in WORKERS}
        for pool in pools.values():
            pool.sweep(trace, [BRIEF] * len(rows), None)
        taken = measure(pools, trace, rows, options.repeats, options.folder)
        for pool in pools.values():
            pool.shutdown()
    print(f"{len(rows)} tasks, {rows.sum()} rows; medians of {options.repeats} rounds, in seconds")
    print("workers  tasks   work/workers  predicted  measured  ratio  fastest to slowest")
    for (workers, kind), spent in taken.items():
        tasks = Tasks(SECONDS[kind](len(rows)), rows)
        predicted = with_executor(tasks, workers, Conditions()).makespan
        least, found = tasks.seconds.sum() / workers, statistics.median(spent)
        print(
            f"{workers:7}  {kind:<6}{least:14.2f}{predicted:11.2f}{found:10.2f}"
            f"{found / predicted:7.2f}  {min(spent):.2f} to {max(spent):.2f}"
        )


if __name__ == "__main__":
    main()
