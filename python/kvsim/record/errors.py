"""What can go wrong while a trace is recorded, and what is worth a line."""

from ..errors import KvsimError


class RecordError(KvsimError):
    """The model, its input or its numbers cannot be recorded; the message is one line."""


class UsageError(RecordError):
    """The recorder was asked for something that does not exist or does not fit together."""


class RecordWarning(UserWarning):
    """The trace is right, but not all that was expected; the message is one line."""
