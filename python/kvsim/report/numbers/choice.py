"""Selects what a report shows of a result file."""

from dataclasses import dataclass

from ...errors import KvsimError


class ChoiceError(KvsimError):
    """The result file does not have what was chosen."""


@dataclass(frozen=True)
class Choice:
    """What to show of a result file.

    By default: the trace, mode and seed with the most rows, all sequences, the largest budget, the
    head in which the policies differ most, all policies in the table, and in the figures those that
    `selection.select` chooses.
    """

    trace_id: str | None = None  # its first characters are enough
    sequences: tuple[str, ...] = ()
    mode: str | None = None
    seed: int | None = None
    budget: str | None = None  # as requested in the sweep, or in tokens
    policies: tuple[str, ...] = ()  # names, labels or specs, as `labels.is_named`; `all`: draw all
    layer: int | None = None
    query_head: int | None = None
    trace: str | None = None  # the trace file, if it has moved
    calibration: str | None = None  # a result file whose running model weighs the layers
