"""What the package raises and warns of, and how text out of files is shown to people.

In: a message, which may quote anything. Out: an exception or a warning of this package, whose text
is one line that a terminal may show. Every other room raises these. Read first: `kinds.py`;
`terminal.py` makes the line.
"""

from .kinds import (
    DataError,
    KvsimError,
    KvsimWarning,
    RecordError,
    RecordWarning,
    UsageError,
    WorkerError,
)

__all__ = [
    "DataError",
    "KvsimError",
    "KvsimWarning",
    "RecordError",
    "RecordWarning",
    "UsageError",
    "WorkerError",
]
