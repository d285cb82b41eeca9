"""The keyword arguments that the functions with replays share, and their way to the engine."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from ..errors import KvsimWarning, UsageError
from ..policy import name_of
from ..policy.entry_points import find_written
from ..trace import Trace

if TYPE_CHECKING:
    from .. import _engine


class ProtocolOptions(TypedDict, total=False):
    """When caches evict, which steps are measured, against what; `Options` has their meaning."""

    mode: str
    eviction_interval: int | str
    page: int
    page_score: str
    every: int
    reference: str


class Options(ProtocolOptions, total=False):
    """The options of `kvsim sweep`, `replay`, `curve` and `analyze`, with `_` for `-`.

    A value may be written as on the command line; where that is a list, a Python list will do.
    Functions take them as keyword arguments, each of them optional, and name those that they lack.

    Attributes
    ----------
    mode : {"stream", "prefill"}, default "stream"
        "stream": evict from the first token on. "prefill": the prompt attends in full and is cut to
        the budget, then every later token evicts one; only later steps are measured.
    eviction_interval : int or "never", default 1
        K: the cache may grow by K - 1 tokens beyond its budget; "never": only the prompt is cut.
    page : int, tokens, default 1
        P: caches evict whole pages of P tokens; budgets are multiples of P, of at least 2 P.
    page_score : {"mean", "max", "min"}, default "mean"
        The score of a page from those of its tokens.
    every : int, steps, default 1
        Output errors at the last step and at every so many before it. For sweep and replay.
    reference : str, default "full"
        "full"; "sample:N": compared with the full attention at N steps, evenly spaced, the last
        included; or "none": only what leaves and when. For sweep and replay.
    sequences : str or sequence of str
        Names; all without it.
    layers : str, int or sequence of int
        As in "0-3,7" or [0, 1, 2, 3, 7]; all without it.
    heads : str, int or sequence of int
        KV heads, each with its query heads; all without it.
    seed : int, default 0
        For policies that draw.
    allocate : str, default "uniform"
        How the budget is split over heads: "uniform", "pyramid", "persistence", "adaptive", "cake",
        "file:PATH", "duo:PATH" or "headkv:PATH".
    threads : int, optional
        Units worked on at once; results do not depend on it. None: OMP_NUM_THREADS, else the cores
        that affinity and the quota of a container or job allow.
    device : {"cpu", "cuda", "auto"}, default "cpu"
        Where attention is computed.
    shard : str, default "1/1"
        "I/N": the I-th of N shares of the work, of equal estimated cost; `kvsim.merge` joins their
        files. Not for replay and labels.
    scratch : path, optional
        A folder on a local disk: `output` is written there and brought to its place whole, every
        minute and at the end. None: only on NFS, Lustre or alike, in TMPDIR. Not for replay and
        labels.
    """

    sequences: str | Sequence[str]
    layers: str | int | Sequence[int]
    heads: str | int | Sequence[int]
    seed: int
    allocate: str
    threads: int | None
    device: str
    shard: str
    scratch: str | Path | None


def engine_options(options: Options) -> dict[str, object]:
    """The options as the engine takes them, without those that are None."""
    settings = {name: value for name, value in options.items() if value is not None}
    for name in ("sequences", "layers", "heads"):
        if name in settings and not isinstance(settings[name], int) and len(settings[name]) == 0:
            raise UsageError(f"{name}: expected at least one, found none; None stands for all")
    for name in ("layers", "heads"):
        if name in settings:
            settings[name] = ",".join(listed(settings[name]))
    if isinstance(settings.get("sequences"), str):
        settings["sequences"] = settings["sequences"].split(",")
    elif "sequences" in settings:
        settings["sequences"] = [str(name) for name in settings["sequences"]]
    if "scratch" in settings:
        settings["scratch"] = os.fspath(settings["scratch"])
    return settings


def protocol_from(arguments: dict[str, object]) -> _engine.Protocol:
    """Takes the options of the protocol out of `arguments`. Raises UsageError for a wrong value."""
    from .. import _engine

    names = [name for name in ProtocolOptions.__annotations__ if name in arguments]
    return _engine.Protocol(**{name: arguments.pop(name) for name in names})


def check_scratch(scratch: object, output: object) -> None:
    """Raises UsageError for a folder of `output` where there is none."""
    if scratch is not None and output is None:
        raise UsageError(
            "scratch: expected output, the result file that is written there, found none; name "
            "one, or leave scratch out"
        )


def listed(values: object) -> list[str]:
    """A value, or several, as texts. One may be a list as the program takes it."""
    if isinstance(values, Iterable) and not isinstance(values, (str, type)):
        values = list(values)
        _check_names_differ([value for value in values if isinstance(value, type)])
        written = [_written(value) for value in values]
    else:
        written = [_written(values)]
    find_written(written)
    return written


def _check_names_differ(classes: list[type]) -> None:
    of_name: dict[object, type] = {}
    for cls in classes:
        name = getattr(cls, "name", None)
        if of_name.setdefault(name, cls) is not cls:
            raise UsageError(f"two classes of policies are named {name!r}; give one another name")


def _written(value: object) -> str:
    """A spec, a class of a policy as its name, an amount. A float keeps its point."""
    if isinstance(value, type):
        return name_of(value)
    return str(value)


def opened(traces: str | Path | Trace | Sequence[str | Path | Trace]) -> list[Trace]:
    """One trace or several, opened."""
    if isinstance(traces, (str, Path, Trace)):
        traces = [traces]
    return [trace if isinstance(trace, Trace) else Trace(trace) for trace in traces]


def engine_traces(traces: str | Path | Trace | Sequence[str | Path | Trace]) -> list[_engine.Trace]:
    """The same as the engine takes them."""
    return [trace._opened for trace in opened(traces)]


def warn_of(notes: Iterable[str]) -> None:
    """Issues the engine's notes as warnings of the caller's caller."""
    for note in notes:
        warnings.warn(note, KvsimWarning, stacklevel=3)
