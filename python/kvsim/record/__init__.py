"""Records what the attention heads of a transformers model compute, as a trace for kvsim.

`recording` needs torch and transformers: it is imported when it is asked for, so that the command
can say what is missing.
"""

from .errors import RecordError, RecordWarning, UsageError

__all__ = ["RecordError", "RecordWarning", "UsageError"]


def __getattr__(name: str) -> object:
    if name == "recording":
        from .session import recording

        return recording
    raise AttributeError(f"module 'kvsim.record' has no attribute {name!r}")
