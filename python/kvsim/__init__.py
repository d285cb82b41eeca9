"""Replays attention through KV-cache eviction policies: arrays or traces in, frames out.

>>> import kvsim
>>> trace = kvsim.Trace.from_arrays(query, key, value)
>>> frame = kvsim.sweep(trace, policies=["h2o", "tova"], budgets=["10%", 64])

It also records traces from transformers models and reads the result files of the program `kvsim`.
Only `kvsim.recording` and `kvsim.evicting` need torch and transformers. They are imported on first
use, and `from kvsim import *` omits them.
"""

from .analyze import analyze
from .c_function import StepStruct
from .comparison import ComparisonWarning, compare
from .curve import curve
from .errors import DataError, KvsimError, KvsimWarning, UsageError
from .kvpress import from_kvpress
from .options import Options
from .plugin import get_include, load_plugin
from .policy import Policy, Rotation, Rules, TokenKind
from .program import ProgramError, run
from .record import RecordError, RecordWarning
from .registry import policies
from .replay import Replay, replay
from .results import NoSuchTable, Results, ResultsError, load
from .sweep import sweep
from .synth import synth
from .trace import Trace, Unit

__version__ = "0.1.0"
__all__ = [
    "ComparisonWarning",
    "DataError",
    "KvsimError",
    "KvsimWarning",
    "NoSuchTable",
    "Options",
    "Policy",
    "ProgramError",
    "RecordError",
    "RecordWarning",
    "Replay",
    "Results",
    "ResultsError",
    "Rotation",
    "Rules",
    "StepStruct",
    "TokenKind",
    "Trace",
    "Unit",
    "UsageError",
    "analyze",
    "compare",
    "curve",
    "from_kvpress",
    "get_include",
    "load",
    "load_plugin",
    "policies",
    "replay",
    "run",
    "sweep",
    "synth",
]


def __getattr__(name: str):
    if name == "recording":
        from .record import recording

        return recording
    if name == "evicting":
        from .closed_loop import evicting

        return evicting
    if name == "update_signature":
        from .c_function import numba_signature

        return numba_signature()
    raise AttributeError(f"module 'kvsim' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), "evicting", "recording", "update_signature"]
