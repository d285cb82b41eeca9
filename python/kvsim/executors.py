"""Sweeps whose units are replayed by other processes: any executor of concurrent.futures."""

from __future__ import annotations

import hashlib
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from typing import TYPE_CHECKING

import cloudpickle

from . import policy
from .errors import KvsimError, UsageError
from .trace import Trace

if TYPE_CHECKING:
    from . import _engine


def run_parts(
    executor: Executor,
    sweep: _engine.PartedSweep,
    traces: list[Trace],
    budgets: str,
    options: dict[str, object],
    report: Callable[[int, int], object] | None,
) -> None:
    """Replays what remains of `sweep`: a task per layer, or per sequence where policies need it.

    Rows are stored as tasks end. Then raises what the first task raised that failed, with a note of
    its place, or KvsimError if a worker died; tasks that have not begun are cancelled.
    """
    # Each worker is one of several; a split over heads is part of the specs of a task.
    shared = {name: value for name, value in options.items() if name != "allocate"}
    plugins = [origin for origin in sweep.origins() if origin != "Python"]
    job = pickle.dumps((traces, budgets, {"threads": 1, **shared}, plugins, _classes_of(sweep)))
    digest = hashlib.sha256(job).hexdigest()
    tasks: dict[Future, _engine.SweepTask] = {}
    try:
        for task in sweep.tasks():
            place = (task.trace, task.sequence, sorted(task.layers), sorted(task.kv_heads))
            tasks[executor.submit(replay_part, digest, job, place, sweep.specs_of(task))] = task
        pending = set(tasks)
        while pending:
            ended, pending = wait(pending, return_when=FIRST_COMPLETED)
            _store(sweep, ended, tasks)
            if report is not None:
                report(sweep.done(), sweep.total())
    finally:
        for future in tasks:
            future.cancel()


def _store(
    sweep: _engine.PartedSweep, ended: set[Future], tasks: dict[Future, _engine.SweepTask]
) -> None:
    """Stores the rows of all that succeeded before it raises what another one raised."""
    failed = [future for future in ended if future.exception() is not None]
    for future in ended.difference(failed):
        sweep.add(future.result())
    if not failed:
        return
    error, task = failed[0].exception(), tasks[failed[0]]
    if isinstance(error, BrokenExecutor):
        raise KvsimError(
            "executor: a worker died, for want of memory perhaps; rows that were finished are kept "
            f"in output, if there is one, and the same call does the rest ({error})"
        ) from error
    layers = ", ".join(map(str, sorted(task.layers)))
    policy.add_note(error, f"in a worker, on {task.sequence} layer {layers}")
    raise error


def replay_part(
    digest: str, job: bytes, place: tuple[int, str, list[int], list[int]], specs: str
) -> list:
    """What a worker does for one task. `digest` is that of the job, which it keeps for the next."""
    from . import _engine

    traces, budgets, options = _job(digest, job)
    trace, sequence, layers, heads = place
    chosen = {
        "sequences": [sequence],
        "layers": ",".join(map(str, layers)),
        "heads": ",".join(map(str, heads)),
    }
    try:
        return _engine.replay_task([traces[trace]._opened], specs, budgets, {**options, **chosen})
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # it cannot travel: its words can
            told = KvsimError(f"{type(error).__name__}: {error}")
            for note in getattr(error, "__notes__", ()):
                policy.add_note(told, note)
            raise told from None
        raise


_known: dict[str, tuple] = {}  # the last job, by its digest
_unpickling = threading.Lock()  # an executor's workers may be threads


def _job(digest: str, job: bytes) -> tuple[list[Trace], str, dict[str, object]]:
    """Unpickles a job once, and makes its classes the policies of their names."""
    from . import _engine

    with _unpickling:
        if digest not in _known:
            with policy.registering_nothing():  # not half of a class, before all of it is there
                traces, budgets, options, plugins, classes = pickle.loads(job)
                found = [(pickle.loads(pickled), code) for pickled, code in classes]
            for plugin in plugins:
                _engine.load_plugin(plugin)
            for cls, code in found:
                policy.register(cls, code)
            _known.clear()
            _known[digest] = (traces, budgets, options)
        return _known[digest]


def _classes_of(sweep: _engine.PartedSweep) -> list[tuple[bytes, str]]:
    return [
        (_pickled_class(cls), cls._kvsim_code)
        for cls in map(policy.registered, sweep.policies_of("Python"))
    ]


def _pickled_class(cls: type[policy.Policy]) -> bytes:
    """By cloudpickle, which takes classes of notebooks and scripts, too."""
    try:
        return cloudpickle.dumps(cls)
    except Exception as error:
        raise UsageError(
            f"executor: cannot send policy {cls.name} to workers ({error}); write it in a module "
            "of its own that they can import"
        ) from error
