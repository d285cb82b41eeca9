"""The two ends of kvsim in Python: recording a trace from a model, and reading results.

>>> import kvsim
>>> results = kvsim.load("results.sqlite")
>>> results.replay.groupby(["policy", "budget"]).attention_recall.mean()

`kvsim.recording` needs torch and transformers, which reading results does not: it is imported
when it is asked for, and `from kvsim import *` leaves it out.
"""

from .errors import KvsimError
from .program import ProgramError, run
from .record import RecordError, RecordWarning, UsageError
from .results import NoSuchTable, Results, ResultsError, load

__version__ = "0.1.0"
__all__ = [
    "KvsimError",
    "NoSuchTable",
    "ProgramError",
    "RecordError",
    "RecordWarning",
    "Results",
    "ResultsError",
    "UsageError",
    "load",
    "run",
]


def __getattr__(name: str):
    if name == "recording":
        from .record import recording

        return recording
    raise AttributeError(f"module 'kvsim' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), "recording"]
