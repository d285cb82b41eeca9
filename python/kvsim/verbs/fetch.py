"""What a device that holds some of the pages of a KV cache fetches from the host."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..policy import selector_name
from ..results.frames import frame_of
from .options import Options, check_scratch, engine_traces, listed, warn_of
from .progress import Progress, reporter
from .shared import file_name, options_without
from .sweep import Traces, command_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from typing_extensions import Unpack


def fetch(
    trace: Traces,
    select: str | type | Sequence[str | type],
    resident: str | float | Sequence[str | float] | None = None,
    replace: str | Sequence[str] = ("lru", "belady"),
    mode: str = "stream",
    threads: int | None = None,
    output: str | Path | None = None,
    progress: Progress = None,
    *,
    curve: bool = False,
    page: int | None = None,
    **options: Unpack[Options],
) -> pd.DataFrame:
    """Every selector, size of the device and replacement on every selected unit: one row each.

    Parameters
    ----------
    trace : path, Trace, or sequence of these
        What to replay on.
    select : str, class, or sequence of these
        What chooses the older pages that a step attends to: specs in a list or separated by ";":
        "topk:k=64", "top-p:p=0.95", "quest:k=64,page=16", "sparq:k=64,rank=32",
        "pq:groups=2,bits=6", "magicpig:tables=150,bits=10"; and classes below `kvsim.Selector`.
    resident : str, int, float, or sequence of these, optional
        Tokens that the device holds, the page of the step included (256), shares of the text
        ("10%", 0.1), ranges ("5%..50%:5%"). A share becomes the nearest multiple of the page that
        is enough for a step.
    replace : str or sequence of str, default ("lru", "belady")
        What leaves for a page that is fetched: "lru", "fifo", "clock", "lfu", "mass" (the least
        accumulated attention), "belady" (MIN: the fewest misses that there are), or "all".
    mode : {"stream", "prefill"}, default "stream"
        See `kvsim.Options`. In prefill mode the prompt attends in full, and only later steps choose
        pages and are measured.
    threads : int, optional
        Units worked on at once; see `kvsim.Options`.
    output : path, optional
        A result file (SQLite), in whose table `fetch` rows of the same key are replaced.
    progress : bool or callable, optional
        As for `kvsim.sweep`, in units.
    curve : bool, default False
        Every size in place of `resident`, from one pass, for "lru" and "belady".
    page : int, optional
        Tokens of a page, for specs that do not say.
    **options : Options
        See `kvsim.Options`, without reference, every, eviction_interval, allocate and page_score.

    Returns
    -------
    pandas.DataFrame
        The columns of the table `fetch`, ordered by its key.

    Raises
    ------
    UsageError
        For a size that is too small for what a step attends to; else as `kvsim.sweep`.
    DataError, KvsimError, KeyboardInterrupt
        As `kvsim.sweep`.
    Exception
        What a selector of Python raises, with a note of the selector, the unit and the step.

    Warns
    -----
    KvsimWarning
        As `kvsim.sweep`.

    Notes
    -----
    The numbers are those of `kvsim fetch`, bit for bit.

    Examples
    --------
    >>> frame = kvsim.fetch(trace, "quest:k=64", resident=["25%", "50%"])
    >>> frame.groupby(["replace", "resident"]).hit_rate.mean()
    """
    several = [select] if isinstance(select, (str, type)) else list(select)
    selectors = [selector_name(each) if isinstance(each, type) else each for each in several]
    replacements = ",".join(listed(replace))
    sizes = [] if resident is None else listed(resident)
    check_scratch(options.get("scratch"), output)
    absent = ("reference", "every", "eviction_interval", "allocate", "page_score")
    settings = options_without(absent, {"mode": mode, "threads": threads, **options})
    own = {"select": selectors, "replace": replacements}
    own |= {"resident": sizes} if sizes else {}
    own |= {"curve": curve} if curve else {}
    own |= {"page": page} if page is not None else {}
    command = command_of("fetch", trace, {**own, **settings})
    from .. import _engine

    with reporter(progress, "units") as report:
        (columns, about), notes = _engine.fetch(
            engine_traces(trace), selectors, sizes, replacements, curve, page, settings,
            file_name(output), command, report,
        )  # fmt: skip
    warn_of(notes)
    return frame_of(columns, about)
