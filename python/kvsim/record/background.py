"""Writes texts that have ended while the model reads the next one."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

Work = Callable[[], None]


class Background:
    """A thread that does one work after the other. After one that raised, the others are left."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None  # until there is work
        self._waiting: list[Future[None]] = []
        self._has_failed = False

    def run(self, work: Work) -> None:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1)
        self._waiting.append(self._pool.submit(self._try, work))

    def _try(self, work: Work) -> None:
        if self._has_failed:
            return
        try:
            work()
        except BaseException:
            self._has_failed = True
            raise

    def settle(self) -> None:
        """Waits until all is done. Raises what one has raised, once."""
        waiting, self._waiting = self._waiting, []
        errors = [future.exception() for future in waiting]
        self._has_failed = False
        if error := next(filter(None, errors), None):
            raise error

    def close(self) -> None:
        """Waits, too; an error does not count."""
        with suppress(Exception):
            self.settle()
        if self._pool is not None:
            self._pool.shutdown()
