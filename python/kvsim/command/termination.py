"""Treats SIGTERM, the end of a job's time, as Ctrl-C."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class _Termination:
    """A handler that makes SIGTERM a Ctrl-C."""

    def __init__(self) -> None:
        self._has_come = False

    def __call__(self, number: int, frame: object) -> None:
        self._has_come = True
        raise KeyboardInterrupt

    def check(self) -> None:
        """Raises it again: Python drops what is raised within a destructor."""
        if self._has_come:
            raise KeyboardInterrupt


@contextmanager
def terminated_as_interrupted() -> Iterator[Callable[[], None]]:
    """Makes SIGTERM, the end of a job's time, a Ctrl-C meanwhile. Call what it gives now and then.

    Only the main thread can. What is no handler of Python's cannot be put back, and stays.
    """
    before = signal.getsignal(signal.SIGTERM)
    termination = _Termination()
    if before is None or threading.current_thread() is not threading.main_thread():
        yield termination.check
        return
    signal.signal(signal.SIGTERM, termination)
    try:
        yield termination.check
    finally:
        signal.signal(signal.SIGTERM, before)
