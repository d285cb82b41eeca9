"""Replays the tasks that a worker gets."""

from __future__ import annotations

import pickle
import socket
import threading
import traceback
from typing import NamedTuple

from .. import policy
from ..errors import KvsimError
from ..trace import Trace, trace_at, trace_of_image
from .job import Contents

Parts = list[tuple[int, str, list[tuple[int, int, tuple[tuple[int, int], ...]]]]]
"""Per sequence (trace, name, units), per unit (layer, KV head, ((policy, budget), ...))."""


class Raised(NamedTuple):
    """An error of a task, returned as a result: executors treat errors in different ways."""

    error: bytes  # pickled
    traceback: str


def replay(digest: str, job: bytes, parts: Parts, ticket: str) -> list | Raised:
    """Returns the rows of a task. `digest` is that of the job, which a worker keeps.

    `ticket` differs between tasks, and between attempts at one: some executors take calls with
    the same arguments for the same.
    """
    from .. import _engine

    try:
        known = _job(digest, job)
        contents, rows = known.contents, []
        for trace, sequence, units in parts:
            opened = known.trace(trace)._opened
            rows += _engine.replay_part(
                opened, sequence, units, contents.specs, contents.budgets, contents.options
            )
        return rows
    except Exception as error:
        if type(error).__module__.partition(".")[0] == "submitit":
            raise  # by a signal, as the job's time is over; the task has raised nothing
        policy.add_note(error, f"on {socket.gethostname()}")
        return Raised(_pickled(error), traceback.format_exc())


class _Known:
    """A job whose policies are those of this process."""

    def __init__(self, contents: Contents):
        self.contents = contents
        self._traces: dict[int, Trace] = {}
        self._opening = threading.Lock()

    def trace(self, index: int) -> Trace:
        """Opens a trace at the first call. Raises DataError if the file has other contents."""
        with self._opening:
            if index not in self._traces:
                path, trace_id, image = self.contents.traces[index]
                found = trace_of_image(image) if path is None else trace_at(path, trace_id)
                self._traces[index] = found
            return self._traces[index]


_known: dict[str, _Known] = {}  # the last job, by its digest
_unpickling = threading.Lock()  # an executor's workers may be threads


def _job(digest: str, job: bytes) -> _Known:
    """Unpickles a job once, and makes its classes the policies of their names."""
    from .. import _engine

    with _unpickling:
        if digest not in _known:
            contents = pickle.loads(job)
            if contents.version != _engine.version():
                raise KvsimError(
                    f"executor: expected kvsim {contents.version} in all workers, found "
                    f"{_engine.version()}; install the same there"
                )
            with policy.registering_nothing():  # not half of a class, before all of it is there
                found = [(pickle.loads(pickled), code) for pickled, code in contents.classes]
            for plugin in contents.plugins:
                _engine.load_plugin(plugin)
            for cls, code in found:
                policy.register(cls, code)
            _known.clear()
            _known[digest] = _Known(contents)
        return _known[digest]


def _pickled(error: Exception) -> bytes:
    """The pickled error; of one that cannot be pickled, a KvsimError with its text and notes."""
    try:
        pickled = pickle.dumps(error)
        pickle.loads(pickled)
        return pickled
    except Exception:
        plain = KvsimError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", ()):
            policy.add_note(plain, note)
        return pickle.dumps(plain)
