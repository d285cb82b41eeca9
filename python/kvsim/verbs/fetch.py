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

    >>> frame = kvsim.fetch(trace, "quest:k=64", resident=["25%", "50%"])
    >>> frame.groupby(["replace", "resident"]).hit_rate.mean()

    Arguments:
      trace, mode, threads, progress: as for kvsim.sweep. In prefill mode the prompt attends in
        full, and only later steps choose pages and are measured.
      select: what chooses the older pages that a step attends to: specs in a list or separated by
        ";": "topk:k=64", "top-p:p=0.95", "quest:k=64,page=16", "sparq:k=64,rank=32",
        "pq:groups=2,bits=6", "magicpig:tables=150,bits=10"; and classes below kvsim.Selector.
      resident: tokens that the device holds, the page of the step included (256), shares
        ("10%", 0.1), ranges ("5%..50%:5%"). A share becomes the nearest multiple of the page that
        is enough for a step.
      replace: what leaves for a page that is fetched: "lru", "fifo", "clock", "lfu", "mass" (the
        least accumulated attention), "belady" (MIN: the fewest misses that there are), or "all".
      output: a result file (SQLite), in whose table `fetch` rows of the same key are replaced.
      curve: every size in place of `resident`, from one pass, for "lru" and "belady".
      page: tokens of a page, for specs that do not say.
      options: see kvsim.Options, without reference, every, eviction_interval and allocate.

    Returns a frame with the columns of the table `fetch`, ordered by its key. The numbers are those
    of `kvsim fetch`, bit for bit. Raises what kvsim.sweep raises, and UsageError for a size that is
    too small for what a step attends to. What a selector of Python raises is raised, with a note of
    the selector, the unit and the step.
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
