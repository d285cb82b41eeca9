"""Exit statuses, types of options and one-line errors, shared by the commands of the package."""

import argparse
import re
import sys
from typing import NoReturn

from ..errors import DataError, KvsimError, RecordError, UsageError
from ..errors.terminal import error_line

STATUS_OTHER, STATUS_USAGE, STATUS_DATA = 1, 2, 3

DIGITS = re.compile(r"\+?[0-9]{1,18}")


class Parser(argparse.ArgumentParser):
    """An argument parser that reports an error in one line."""

    def error(self, message: str) -> NoReturn:
        sys.exit(fail(f"{message}; see {self.prog} --help", STATUS_USAGE))


def natural(text: str) -> int:
    """The type of an option: a whole number from 0 on."""
    return _whole(text, 0)


def positive(text: str) -> int:
    """The type of an option: a whole number from 1 on."""
    return _whole(text, 1)


def _whole(text: str, least: int) -> int:
    if not DIGITS.fullmatch(text) or int(text) < least:
        raise argparse.ArgumentTypeError(f"expected a whole number from {least} on, found {text}")
    return int(text)


def nonnegative(text: str) -> float:
    """The type of an option: any number from 0 on."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected 0 or more, found {text}")
    return value


def fail(message: str, status: int) -> int:
    """Prints the error and returns the status."""
    print("kvsim: error:", error_line(message), file=sys.stderr)
    return status


def failed(error: Exception) -> int:
    """Prints what ended a command, and returns its status: 2 for usage, 3 for data, else 1."""
    if isinstance(error, UsageError):
        return fail(str(error), STATUS_USAGE)
    if isinstance(error, (DataError, RecordError)):
        return fail(str(error), STATUS_DATA)
    is_ours = isinstance(error, KvsimError)
    return fail(str(error) if is_ours else f"{type(error).__name__}: {error}", STATUS_OTHER)


def show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """Prints a warning of the package as a line; those of libraries do not concern the user."""
    from ..errors import KvsimWarning, RecordWarning

    if issubclass(category, (KvsimWarning, RecordWarning)):
        print("kvsim: warning:", message, file=sys.stderr)
