"""What of a result file a report shows."""

from dataclasses import dataclass

from ..errors import KvsimError


class ChoiceError(KvsimError):
    """Something was chosen that the result file does not have."""


@dataclass(frozen=True)
class Choice:
    """What to show of a result file. None: the trace, mode and seed with the most rows, all
    sequences and policies, the largest budget, the head in which policies differ most."""

    trace_id: str | None = None  # its first characters are enough
    sequences: tuple[str, ...] = ()
    mode: str | None = None
    seed: int | None = None
    budget: str | None = None  # as it was asked for, or in tokens
    policies: tuple[str, ...] = ()  # canonical specs, labels or names
    layer: int | None = None
    query_head: int | None = None
    trace: str | None = None  # where the trace file is now
