"""Writes texts that have ended while the model reads the next one."""

from collections.abc import Callable
from contextlib import suppress
from queue import Queue
from threading import Thread

Work = Callable[[], None]


class Background:
    """Does work in a thread, one after the other. A work keeps its errors itself.

    Interrupts come to the thread of the caller at any moment. A thread pool may lose work by them.
    """

    def __init__(self) -> None:
        self._thread: Thread | None = None  # until there is work
        self._works: Queue[Work | None] = Queue()
        self._is_closed = False

    def run(self, work: Work) -> None:
        if self._thread is None:
            thread = Thread(target=self._do_all, daemon=True)
            thread.start()
            self._thread = thread
        self._works.put(work)

    def wait(self) -> None:
        """Waits until all is done. After an interrupt it can be called again."""
        self._works.join()

    def close(self) -> None:
        """Leaves work that has not begun, and waits for what has, also through interrupts.

        The caller closes what the work uses.
        """
        self._is_closed = True
        interrupt = None
        while True:
            try:
                self.wait()
                break
            except KeyboardInterrupt as error:
                interrupt = error
        if self._thread is not None:
            self._works.put(None)
            self._thread.join()
            self._thread = None
        if interrupt is not None:
            raise interrupt

    def _do_all(self) -> None:
        while (work := self._works.get()) is not None:
            with suppress(BaseException):
                if not self._is_closed:
                    work()
            self._works.task_done()
