"""Progress of long work."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = bool | Callable[[int, int], object] | None


@contextmanager
def reporter(progress: Progress, unit: str) -> Iterator[Callable[[int, int], object] | None]:
    """What the engine calls with (done, total): a bar of tqdm, the caller's own, or nothing.

    None: a bar where standard error is a terminal, and in a notebook.
    """
    if callable(progress):
        yield progress
        return
    if progress is None:
        progress = "ipykernel" in sys.modules or sys.stderr.isatty()
    if not progress:
        yield None
        return
    from tqdm.auto import tqdm

    with tqdm(unit=unit) as bar:

        def report(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield report
