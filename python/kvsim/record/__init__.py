"""Records the attention heads of a transformers model as a trace for kvsim.

`recording` needs torch and transformers. It is imported on first use, so that the command can
report a missing library.
"""

from ..errors import RecordError, RecordWarning, UsageError

__all__ = ["RecordError", "RecordWarning", "UsageError"]


def __getattr__(name: str) -> object:
    if name == "recording":
        from .session import recording

        return recording
    raise AttributeError(f"module 'kvsim.record' has no attribute {name!r}")
