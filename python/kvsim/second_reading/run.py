"""Reads the texts of a trace again and writes what their tokens get."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import KvsimError, UsageError
from ..files.head_tables import npy_of
from ..files.partial import written_whole
from ..verbs.options import opened
from ..verbs.progress import Progress, reporter
from .arguments import checked_texts
from .budgets import removed_shares
from .checks import require_model, require_room
from .scores_file import Scores, image_of
from .wording import INSTRUCTIONS, Wording

if TYPE_CHECKING:
    import torch

    from ..trace import Trace
    from .checks import Text

CHUNK = 2048
SINKS = 4


def second_reading(
    model: torch.nn.Module,
    trace: str | Path | Trace,
    output: str | os.PathLike[str],
    *,
    tokenizer: Any = None,
    reads: str = "prompt",
    chunk: int = CHUNK,
    sinks: int = SINKS,
    instruction: str | Sequence[str] = INSTRUCTIONS,
    suffix: str | None = None,
    sequences: str | Sequence[str] | None = None,
    budgets: str | os.PathLike[str] | None = None,
    progress: Progress = None,
) -> None:
    """Writes the largest attention that each token gets while the model reads its text again.

    The model reads a text of the trace once. Then it is asked to repeat it, chunk by chunk, and
    reads each chunk again after the request.

    Parameters
    ----------
    model : torch.nn.Module
        The one that the trace is of.
    trace : path or Trace
        With token ids.
    output : path
        The file of scores, which appears when it is complete and replaces earlier scores only.
    tokenizer : transformers tokenizer, optional
        Of the instruction; None: the one that is stored where the model was loaded from.
    reads : {"prompt", "text"}, default "prompt"
        "prompt": the prompt of each sequence is scored; "text": the whole text. A policy that reads
        the latter in stream mode knows the future.
    chunk : int, tokens, default 2048
        Tokens that are read again in a pass.
    sinks : int, tokens, default 4
        First tokens of the text that later chunks are seen with; give the policy the same.
    instruction : str or sequence of str, default that of KVzip
        A text, or one for the first chunk and one for later ones, which the last 8 tokens of the
        chunk before follow.
    suffix : str, optional
        Stands between these and the chunk; None: what the tokenizer's chat template puts after a
        user's message, a line feed without a template.
    sequences : str or sequence of str, optional
        Names; None: all.
    budgets : path, optional
        A file .npy of the share of its tokens that each head removes at compression ratios 1% to
        99% where the lowest scores of all heads leave together, float32 [99, layers, KV heads],
        which POLICY@file:PATH reads; replaces such an array only. Needs scores of one sequence and
        all layers.
    progress : bool or callable, optional
        As for `kvsim.sweep`, in forward passes.

    Raises
    ------
    UsageError
        For arguments that do not fit the trace.
    DataError
        For a trace without token ids or with layers that do not attend to all tokens or read
        another's cache.
    RecordError
        For a model that does so.
    KvsimError
        If a file cannot be written.

    Notes
    -----
    A token's score for a KV head is the largest attention that a token of that pass pays it, over
    the query heads; the softmax is over the first `sinks` tokens, the chunk, and the tokens of the
    pass up to the one that attends. The normalisation of KVzip+ is left out.

    References
    ----------
    KVzip, arXiv 2505.23416, section 3, as KVzipPress of kvpress 0.5.5 computes it.

    Examples
    --------
    >>> kvsim.second_reading(model, "trace.h5", "scores.h5", tokenizer=tokenizer)
    >>> once = {"mode": "prefill", "eviction_interval": "never"}
    >>> kvsim.sweep("trace.h5", "kvzip:file=scores.h5", "20%", **once)
    """
    (read,) = opened(trace)
    texts = checked_texts(read, output, reads, chunk, sinks, sequences, budgets)

    from ..model.decoder import model_name, require_decoder

    config = require_decoder(model)
    require_model(config, read)
    wording = Wording.of(_tokenizer_of(model, tokenizer), instruction, suffix)
    about = {
        "made_by": f"kvsim.second_reading ({_versions()})",
        "model": model_name(model),
        "trace_id": read.trace_id,
        "reads": reads,
        "chunk": chunk,
        "sinks": sinks,
    }
    with ExitStack() as stack:
        partial_budgets = None
        if budgets is not None:
            # It gets its name last: no failure leaves a new split next to earlier scores.
            partial_budgets = stack.enter_context(written_whole(budgets))
        partial = stack.enter_context(written_whole(output))
        report = stack.enter_context(reporter(progress, "passes"))
        scores = _scores(model, config, read, texts, wording, chunk, sinks, report)
        text_ids = {text.name: text.text_id for text in texts}
        _write(partial, output, image_of(scores, text_ids, about))
        if partial_budgets is not None:
            shares = removed_shares(scores[texts[0].name], sinks)
            _write(partial_budgets, budgets, npy_of(shares))


def _scores(
    model: torch.nn.Module,
    config: Any,
    trace: Trace,
    texts: list[Text],
    wording: Wording,
    chunk: int,
    sinks: int,
    report: Any,
) -> Scores:
    from .attention import Part
    from .reader import SecondReader

    parts_of = {}
    for text in texts:
        starts = range(0, len(text.ids), chunk)
        parts = [Part(start, min(start + chunk, len(text.ids)), sinks) for start in starts]
        asked = [wording.repeated(text.ids, part.start, part.end, chunk) for part in parts]
        require_room(config, text, max(asked, key=len))
        parts_of[text.name] = list(zip(parts, asked, strict=True))
    done, total = 0, sum(1 + len(parts) for parts in parts_of.values())

    def advance() -> None:
        nonlocal done
        done += 1
        if report is not None:
            report(done, total)

    scores = {}
    for text in texts:
        reader = SecondReader(model, text, text.witness(trace))
        with reader.following(model):
            scores[text.name] = reader.read(parts_of[text.name], advance)
    return scores


def _tokenizer_of(model: torch.nn.Module, tokenizer: Any) -> Any:
    if tokenizer is not None:
        return tokenizer
    name = getattr(model.config, "_name_or_path", "")
    if not name:
        raise UsageError("tokenizer: the model does not say where it was loaded from; give it")
    from ..model.loading import load_tokenizer

    return load_tokenizer(name)


def _write(partial: Path, path: str | os.PathLike[str], data: bytes) -> None:
    try:
        partial.write_bytes(data)
    except OSError as error:
        raise KvsimError(f"{path}: cannot be written: {error.strerror}") from error


def _versions() -> str:
    return " ".join(f"{name} {metadata.version(name)}" for name in ("transformers", "torch"))
