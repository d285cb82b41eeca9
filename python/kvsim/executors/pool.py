"""Where tasks run: in an executor, and after a death that breaks it, in processes of its kind."""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Executor, ProcessPoolExecutor
from typing import Any

from ..errors import KvsimError, UsageError

LONGEST_PAUSE = 1.0
"""Seconds between looks at futures without a callback at their end, as jobs of submitit."""


class Died(Exception):
    """A worker died while it had the task. `deaths`: how many of them count against the task."""

    def __init__(self, deaths: int):
        super().__init__(deaths)
        self.deaths = deaths


class Pool:
    """Runs a call per key and returns the results of calls, in the order in which they end.

    A process pool breaks as a whole when one of its workers dies, whatever that worker did. From
    then on every call runs in a pool of one worker, so that its own call is the cause of a death.
    As many calls run at a time as the pool had workers. The pool of the caller stays broken.
    """

    def __init__(self, executor: Executor):
        if not hasattr(executor, "submit") or hasattr(executor, "get_executor"):
            raise UsageError(
                "executor: expected one of concurrent.futures or alike, found "
                f"{type(executor).__name__}; of a client of Dask take client.get_executor()"
            )
        self._of_caller: Executor | None = executor
        self._kind = executor
        self._idle: list[ProcessPoolExecutor] = []
        self._pools: dict[Any, ProcessPoolExecutor] = {}  # of running futures
        self._keys: dict[Any, object] = {}  # of running futures
        self._ended: queue.SimpleQueue = queue.SimpleQueue()
        self._polled: list[Any] = []
        self._workers_start = False  # once that was seen

    @property
    def running(self) -> int:
        return len(self._keys)

    def has_room(self) -> bool:
        return self._of_caller is not None or self.running < self._kind._max_workers

    def start(self, key: object, function: Callable, *arguments: object) -> None:
        if self._of_caller is not None:
            try:
                return self._watch(key, self._of_caller.submit(function, *arguments))
            except BrokenExecutor as error:
                if (failure := self._is_broken(error)) is not None:
                    raise failure from error
        while True:
            pool = self._idle.pop() if self._idle else _pool_like(self._kind)
            try:
                future = pool.submit(function, *arguments)
            except BrokenExecutor:  # its worker died while it had nothing to do
                continue
            self._pools[future] = pool
            return self._watch(key, future)

    def _watch(self, key: object, future: Any) -> None:
        self._keys[future] = key
        if hasattr(future, "add_done_callback"):
            future.add_done_callback(self._ended.put)
        else:
            self._polled.append(future)

    def ended(self, wait: bool) -> tuple[object, object] | None:
        """The key of a call that has ended, and what it returned or raised; None: none has ended.

        The error is Died if a worker died.
        """
        future = self._next(wait)
        return None if future is None else (self._keys.pop(future), self._outcome(future))

    def _next(self, wait: bool) -> Any:
        pause = 0.02
        while True:
            for future in [future for future in self._polled if future.done()]:
                self._polled.remove(future)
                self._ended.put(future)
            blocks = wait and not self._polled
            try:
                return self._ended.get(block=blocks)
            except queue.Empty:
                if not wait:
                    return None
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _outcome(self, future: Any) -> object:
        pool = self._pools.pop(future, None)
        try:
            result = future.result()
        except BrokenExecutor as error:
            if pool is not None:
                _let_end(pool)
                return self._cannot_start() or Died(1)
            return self._is_broken(error) or Died(0)
        except CancelledError:
            return KvsimError("executor: a task was cancelled; has the executor been shut down?")
        except BaseException as error:
            deaths = _deaths_of(error)
            return error if deaths is None else Died(deaths)
        if pool is not None:
            self._idle.append(pool)
        self._workers_start = True
        return result

    def _cannot_start(self) -> KvsimError | None:
        """The error to raise if workers die whatever they are to do."""
        if not self._workers_start:
            pool = _pool_like(self._kind)
            try:
                pool.submit(os.getpid).result()
            except BrokenExecutor:
                return KvsimError(
                    "executor: workers cannot start: they die before they have anything to do; see "
                    "what the pool's initializer raises, and where workers are spawned, put the "
                    'call under `if __name__ == "__main__":`'
                )
            self._idle.append(pool)
            self._workers_start = True
        return None

    def _is_broken(self, error: BrokenExecutor) -> KvsimError | None:
        """Takes note that the caller's executor broke. Returns an error if nothing replaces it."""
        if isinstance(self._kind, ProcessPoolExecutor):
            _let_end(self._kind)
            self._of_caller = None
            return None
        return KvsimError(
            f"executor: {type(self._kind).__name__} is broken, by a worker that died perhaps; "
            f"finished rows are kept in output, and the same call does the rest ({error})"
        )

    def close(self) -> list[Exception]:
        """Cancels calls that have not begun, and jobs of submitit. Returns the errors of that."""
        errors = []
        try:
            for future in list(self._keys):
                try:
                    future.cancel()
                except Exception as error:  # as of a scheduler that does not answer
                    errors.append(error)
        finally:
            for pool in self._pools.values():
                pool.shutdown(wait=False, cancel_futures=True)
            for pool in self._idle:
                pool.shutdown()
        return errors


_DEATHS = {
    # Of several workers, one after the other; Dask blames tasks that waited in them, too.
    ("distributed", "KilledWorker"): 2,
    ("submitit", "UncompletedJobError"): 1,
}


def _deaths_of(error: BaseException) -> int | None:
    """How many deaths of workers an error stands for; None: it is no death."""
    kind = type(error).__module__.partition(".")[0], type(error).__name__
    if kind == ("submitit", "FailedJobError"):  # whose text names the cause
        kind = "submitit", "UncompletedJobError" if "UncompletedJobError" in str(error) else ""
    return _DEATHS.get(kind)


def _let_end(broken: ProcessPoolExecutor) -> None:
    """Lets a broken pool end, if it is stuck while it sends a task to a pipe that nobody reads.

    Up to Python 3.11.4 its thread waits forever then: gh-94777.
    """
    manager, calls = broken._executor_manager_thread, broken._call_queue
    if manager is None or calls is None:  # it has ended
        return
    manager.join(timeout=1)
    if manager.is_alive():
        calls._reader.close()


def _pool_like(pool: ProcessPoolExecutor) -> ProcessPoolExecutor:
    """A pool of one worker, made as `pool`."""
    options = {"max_tasks_per_child": getattr(pool, "_max_tasks_per_child", None)}
    if options["max_tasks_per_child"] is None:  # an argument since Python 3.11
        options.clear()
    return ProcessPoolExecutor(1, pool._mp_context, pool._initializer, pool._initargs, **options)
