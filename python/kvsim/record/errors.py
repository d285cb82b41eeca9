"""What can go wrong while a trace is recorded."""


class RecordError(Exception):
    """The model, its input or its numbers cannot be recorded; the message is one line."""


class UsageError(RecordError):
    """The recorder was asked for something that does not exist or does not fit together."""
