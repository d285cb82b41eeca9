"""Exit statuses and one-line errors, shared by the commands of the package."""

import argparse
import sys
from typing import NoReturn

STATUS_OTHER, STATUS_USAGE, STATUS_DATA = 1, 2, 3


class Parser(argparse.ArgumentParser):
    """An argument parser that reports an error in one line."""

    def error(self, message: str) -> NoReturn:
        sys.exit(fail(f"{message}; see {self.prog} --help", STATUS_USAGE))


def fail(message: str, status: int) -> int:
    """Prints the error and returns the status."""
    print("kvsim: error:", " ".join(message.split()), file=sys.stderr)
    return status


def show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """Prints ours as a line of the program; those of libraries are not for who runs a command."""
    from .errors import KvsimWarning
    from .model.errors import RecordWarning

    if issubclass(category, (KvsimWarning, RecordWarning)):
        print("kvsim: warning:", message, file=sys.stderr)
