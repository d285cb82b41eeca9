"""What the commands `python -m kvsim.NAME` share with each other and with the program.

In: the words of a command line, errors, frames. Out: parsed options, an exit status with one line
on standard error, CSV. Read first: `parser.py`; `termination.py` makes SIGTERM a Ctrl-C,
`notes.py` prints warnings, `csv_text.py` a frame, `progress.py` shows how far the work is.
"""

from .parser import (
    STATUS_DATA,
    STATUS_OTHER,
    STATUS_USAGE,
    Parser,
    fail,
    failed,
    natural,
    nonnegative,
    positive,
    show_warning,
)

__all__ = [
    "STATUS_DATA",
    "STATUS_OTHER",
    "STATUS_USAGE",
    "Parser",
    "fail",
    "failed",
    "natural",
    "nonnegative",
    "positive",
    "show_warning",
]
