"""What can be refused before a model is loaded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..files.outputs import replaceable
from .budgets import holds_budgets, require_all_layers
from .checks import texts_of
from .scores_file import check_output

if TYPE_CHECKING:
    from ..trace import Trace
    from .checks import Text


def checked_texts(
    trace: Trace,
    output: str | os.PathLike[str],
    reads: str,
    chunk: int,
    sinks: int,
    sequences: str | Sequence[str] | None,
    budgets: str | os.PathLike[str] | None,
) -> list[Text]:
    """The texts to read again, if these arguments of `second_reading` fit them.

    Raises UsageError for the arguments, DataError for the trace.
    """
    scores = check_output(output)
    _require_whole("chunk", chunk, 1)
    _require_whole("sinks", sinks, 0)
    names = [sequences] if isinstance(sequences, str) else sequences
    texts = texts_of(trace, reads, None if names is None else list(names))
    if budgets is not None:
        _require_budgets(budgets, scores, texts, trace.num_layers)
    return texts


def _require_whole(name: str, value: object, least: int) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise UsageError(f"{name}: expected a whole number from {least} on, found {value!r}")


def _require_budgets(
    budgets: str | os.PathLike[str], scores: Path, texts: list[Text], num_layers: int
) -> None:
    path = Path(budgets)
    if path.suffix != ".npy":
        raise UsageError(f"budgets: expected a file .npy, found {path}")
    if path.resolve() == scores.resolve():
        raise UsageError(f"budgets: expected another file than that of the scores, found {path}")
    replaceable(path, "budgets", "budgets of heads", holds_budgets)
    if len(texts) != 1:
        raise UsageError(
            f"budgets: expected one sequence, found {len(texts)}; name one in sequences"
        )
    require_all_layers({layer.index for layer in texts[0].layers}, num_layers)
