"""Texts as a user gives them, turned into the tokens that the model reads."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import KvsimWarning, RecordError, UsageError
from ..model.spans import Span, prompt_tokens, token_spans, with_offsets
from ..model.texts import labelled_parts, prompt_characters, read_file, read_texts
from ..model.tokens import text_id, token_texts
from ..trace.names import NAME_FORM, is_name, surrogate_of
from .loops import Job

FORMS = (
    "a string, token ids, a dict of text, spans, name and prompt_length as in a line of JSON, or "
    "the Path of a file"
)


FIELDS = ("text", "spans", "name", "prompt_length")
OF_TASKS = ("task", "length", "depth")  # what kvsim.tasks says of a text, which is not read here


@dataclass(frozen=True)
class InputText:
    """A text before it is tokenised. Spans and the prompt are counted in characters."""

    text: str | np.ndarray  # or token ids, int32 [n]
    source: str
    name: str | None = None
    spans: tuple[Span, ...] = ()
    prompt_length: int | None = None


def input_texts(texts: object) -> list[InputText]:
    """What `texts` names: one of FORMS, or a sequence of these. Raises UsageError for others.

    A file with the suffix .jsonl has a text per line; any other is one text, named after the file.
    """
    if _is_one(texts):
        texts = [texts]
    elif not isinstance(texts, Iterable):
        raise UsageError(f"texts: expected {FORMS}, found a {type(texts).__name__}")
    found: list[InputText] = []
    for index, text in enumerate(texts):
        found += _inputs_of(text, f"texts[{index}]")
    if not found:
        raise UsageError("texts: expected at least one, found none")
    return found


def jobs_of(
    texts: Sequence[InputText],
    tokenizer: Any,
    names: Sequence[str] | None,
    prompt_length: int | None,
) -> list[Job]:
    """Tokenises texts. `names` and `prompt_length` (in tokens) hold for all of them.

    Raises UsageError for what contradicts itself, RecordError for a text without tokens and for a
    span without one.
    """
    if isinstance(names, str):
        raise UsageError(f"names: expected a list of names, found the text {names!r}")
    if names is not None and len(names) != len(texts):
        raise UsageError(f"names: expected {len(texts)}, one for each text, found {len(names)}")
    jobs: dict[str, Job] = {}
    for index, text in enumerate(texts):
        job = _job(text, tokenizer, names[index] if names is not None else None, prompt_length)
        if job.name in jobs:
            raise UsageError(
                f"{job.source}: an earlier text is named {job.name}, too"
                + ("; it has the same tokens" if jobs[job.name].text_id == job.text_id else "")
            )
        jobs[job.name] = job
    return list(jobs.values())


def _is_one(texts: object) -> bool:
    if isinstance(texts, (str, Path, Mapping, InputText)):
        return True
    if isinstance(texts, np.ndarray) or hasattr(texts, "detach"):  # of numpy, of torch
        return texts.ndim == 1
    return isinstance(texts, Sequence) and len(texts) > 0 and _is_number(texts[0])


def _is_number(value: object) -> bool:
    return hasattr(value, "__index__") and getattr(value, "ndim", 0) == 0


def _inputs_of(text: object, source: str) -> list[InputText]:
    if isinstance(text, InputText):
        return [text]
    if isinstance(text, str):
        if "\n" not in text and text.endswith((".txt", ".jsonl")):
            warnings.warn(
                f"{source}: {text!r} is read as a text; a pathlib.Path is read as a file",
                KvsimWarning,
                stacklevel=2,
            )
        return [InputText(text, source)]
    if isinstance(text, Path):
        return read_lines(text) if text.suffix == ".jsonl" else _read_whole(text)
    if isinstance(text, Mapping):
        return [_from_fields(text, source)]
    if hasattr(text, "detach"):
        text = text.detach().cpu().numpy()
    try:
        ids = np.asarray(text)
    except ValueError:  # lists of several lengths
        ids = np.empty(0, object)
    if ids.ndim != 1 or (ids.dtype.kind not in "iu" and ids.size):
        raise UsageError(f"{source}: expected {FORMS}, found a {type(text).__name__}")
    if ids.size and (ids.min() < 0 or ids.max() >= 2**31):
        raise UsageError(f"{source}: expected token ids of 0 or more")
    return [InputText(ids.astype(np.int32), source)]


def read_lines(path: Path) -> list[InputText]:
    """Reads a text per line: a string of JSON, or an object with text, spans, name, prompt_length.

    Raises RecordError for another line, and for a file without any.
    """
    found = []
    # Not splitlines: a JSON string may contain U+2028 and other line separators.
    for number, line in enumerate(read_file(path).split("\n"), 1):
        if not line.strip():
            continue
        place = f"{path.name} line {number}"
        try:
            value = json.loads(line)
        except ValueError as error:
            raise RecordError(f"{place}: expected JSON: {error}") from error
        found.append(_from_fields({"text": value} if isinstance(value, str) else value, place))
    if not found:
        raise RecordError(f"{path}: expected texts, found an empty file")
    return found


def _read_whole(path: Path) -> list[InputText]:
    (text,) = read_texts([path], [])
    return [InputText(text.text, text.source, text.name)]


def _from_fields(fields: object, source: str) -> InputText:
    """A text from the fields of a line of JSON."""
    if not isinstance(fields, Mapping) or not isinstance(fields.get("text"), str):
        raise RecordError(f'{source}: expected a string or {{"text": "...", "spans": [...]}}')
    if unknown := set(fields) - {*FIELDS, *OF_TASKS}:
        raise RecordError(
            f"{source}: expected text, spans, name or prompt_length, found {min(map(str, unknown))}"
        )
    text = fields["text"]
    prompt = prompt_characters(fields, text, source)
    return InputText(text, source, fields.get("name"), labelled_parts(fields, text, source), prompt)


def _job(text: InputText, tokenizer: Any, name: str | None, prompt_length: int | None) -> Job:
    if prompt_length is not None and text.prompt_length is not None:
        raise UsageError(
            f"prompt_length: {text.source} says its own, of {text.prompt_length} characters; "
            "leave one out"
        )
    spans: Sequence[Span] = ()
    if isinstance(text.text, str):
        if not text.text:
            raise RecordError(f"{text.source}: expected a text, found no token")
        if problem := surrogate_of(text.text):
            raise RecordError(f"{text.source}: expected a text, found {problem}")
        ids, characters = with_offsets(tokenizer, text.text)
        ids = np.array(ids, np.int32)
        spans = token_spans(characters, text.spans, text.source)
        if text.prompt_length is not None:
            prompt_length = prompt_tokens(characters, text.prompt_length)
    else:
        ids = text.text
    if not len(ids):
        raise RecordError(f"{text.source}: expected a text, found no token")
    prompt = whole_number("prompt_length", prompt_length or 0)
    if not 0 <= prompt < len(ids):
        raise UsageError(
            f"prompt_length {prompt}: {text.source} has {len(ids)} tokens, and one must follow "
            f"the prompt; give 0 to {len(ids) - 1}"
        )
    digest = text_id(ids)
    own = text.name if name is None else name
    return Job(
        name=f"text-{digest[:12]}" if own is None else _checked(own),
        is_named=own is not None,
        text_id=digest,
        ids=ids,
        prompt_length=prompt,
        spans=tuple(spans),
        source=text.source,
        token_text=None if tokenizer is None else tuple(token_texts(tokenizer, ids.tolist())),
    )


def whole_number(argument: str, value: object) -> int:
    """The value. Raises UsageError for anything else than a whole number."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise UsageError(f"{argument}: expected a whole number, found {value!r}")
    return int(value)


def _checked(name: object) -> str:
    if not is_name(name):
        raise UsageError(f"name: expected {NAME_FORM}, found {name!r}")
    return name
