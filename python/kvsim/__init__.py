"""Records a trace from a transformers model, runs kvsim and reads its result files.

>>> import kvsim
>>> results = kvsim.load("results.sqlite")
>>> results.replay.groupby(["policy", "budget"]).attention_recall.mean()

Only `kvsim.recording` needs torch and transformers. It is imported on first use, and
`from kvsim import *` omits it.
"""

from .c_function import StepStruct
from .comparison import ComparisonWarning, compare
from .errors import KvsimError
from .policy import Policy, Rotation, Rules, TokenKind
from .program import ProgramError, run
from .record import RecordError, RecordWarning, UsageError
from .results import NoSuchTable, Results, ResultsError, load

__version__ = "0.1.0"
__all__ = [
    "ComparisonWarning",
    "KvsimError",
    "NoSuchTable",
    "Policy",
    "ProgramError",
    "RecordError",
    "RecordWarning",
    "Results",
    "ResultsError",
    "Rotation",
    "Rules",
    "StepStruct",
    "TokenKind",
    "UsageError",
    "compare",
    "load",
    "run",
]


def __getattr__(name: str):
    if name == "recording":
        from .record import recording

        return recording
    if name == "update_signature":
        from .c_function import numba_signature

        return numba_signature()
    raise AttributeError(f"module 'kvsim' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), "recording", "update_signature"]
