"""Text that people read: names out of files may hold anything, which a terminal would obey."""

from __future__ import annotations

import sys

LONGEST = 1000
_KEPT = 480  # of each end


def printable(text: object) -> str:
    r"""The text on one line, as a terminal may show it.

    Control characters, characters without an own shape (directions of writing, joiners, blanks
    other than " ") and bytes that were not UTF-8 become escapes as in repr(): \x1b, \n, \u202e.
    """
    text = str(text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def error_line(message: object) -> str:
    """The message as the line of an error: printable, with blanks for line ends.

    Of a line longer than LONGEST characters the middle is left out, where their number then stands:
    it begins with the file or option and ends with the fix.
    """
    line = printable(" ".join(str(message).split()))
    if len(line) <= LONGEST:
        return line
    left_out = len(line) - 2 * _KEPT
    return f"{line[:_KEPT]} [... {left_out} characters ...] {line[-_KEPT:]}"


def say(line: str) -> None:
    """Prints a note on standard error."""
    print(printable(line), file=sys.stderr, flush=True)
