"""The errors of the package. Their messages are one line, in the words of the program."""

from .terminal import error_line


class KvsimError(Exception):
    """What the package raises: one line, what is wrong and, where possible, what to do."""

    def __str__(self) -> str:
        return error_line(super().__str__())


class UsageError(KvsimError):
    """The arguments name something that does not exist, or they contradict each other."""


class DataError(KvsimError):
    """Input data are invalid.

    The message names the file, the dataset, and what was expected.
    """


class WorkerError(KvsimError):
    """Some units killed the workers that replayed them, and were skipped.

    Attributes
    ----------
    frame : pandas.DataFrame or None
        The rows of all others, which are in the output, if there is one.
    """

    frame = None


class RecordError(KvsimError):
    """The model, its input or its numbers cannot be recorded. The message is one line."""


class KvsimWarning(UserWarning):
    """Something runs other than it was asked for, which the message states in one line."""

    def __str__(self) -> str:
        return error_line(super().__str__())


class RecordWarning(UserWarning):
    """The trace has a limitation, which the message states in one line."""

    def __str__(self) -> str:
        return error_line(super().__str__())
