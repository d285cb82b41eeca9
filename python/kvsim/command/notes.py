"""Prints what a command warns of."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import RecordWarning


@contextmanager
def notes_printed() -> Iterator[None]:
    """Prints the RecordWarnings of the block as lines when it ends, also by an exception."""
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always", RecordWarning)
        try:
            yield
        finally:
            for note in noted:
                if issubclass(note.category, RecordWarning):
                    print("kvsim: warning:", note.message, file=sys.stderr)
