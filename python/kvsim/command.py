"""What the commands of the package share: their exit statuses, and errors of one line."""

import argparse
import sys
from typing import NoReturn

STATUS_OTHER, STATUS_USAGE, STATUS_DATA = 1, 2, 3


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        sys.exit(fail(f"{message}; see {self.prog} --help", STATUS_USAGE))


def fail(message: str, status: int) -> int:
    """Prints the error and gives the status back."""
    print("kvsim: error:", " ".join(message.split()), file=sys.stderr)
    return status
