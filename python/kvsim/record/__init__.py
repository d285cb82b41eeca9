"""Records what the attention heads of a transformers model compute, as a trace for kvsim."""

from .errors import RecordError, UsageError
from .session import recording
from .trace_id import trace_id

__all__ = ["RecordError", "UsageError", "recording", "trace_id"]
