"""The errors and the warning of what runs a model."""

from ..errors import KvsimError, UsageError
from ..terminal import error_line

__all__ = ["RecordError", "RecordWarning", "UsageError"]


class RecordError(KvsimError):
    """The model, its input or its numbers cannot be recorded. The message is one line."""


class RecordWarning(UserWarning):
    """The trace has a limitation, which the message states in one line."""

    def __str__(self) -> str:
        return error_line(super().__str__())
