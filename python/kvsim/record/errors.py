"""The errors and the warning of the recorder."""

from ..errors import KvsimError


class RecordError(KvsimError):
    """The model, its input or its numbers cannot be recorded. The message is one line."""


class UsageError(RecordError):
    """The arguments name something that does not exist, or they contradict each other."""


class RecordWarning(UserWarning):
    """The trace has a limitation, which the message states in one line."""
