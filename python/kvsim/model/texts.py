"""Reads the texts and the list of layers that the command line names."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import RecordError, UsageError
from ..trace.names import NAME_FORM, is_name, surrogate_of
from ..trace.spans import Span, checked_spans

LAYERS_FORM = re.compile(r"\d{1,6}(-\d{1,6})?(,\d{1,6}(-\d{1,6})?)*")


@dataclass(frozen=True)
class Text:
    name: str  # the name of the sequence
    text: str
    source: str
    prompt: str | None = None  # what the text continues; None: the text stands alone
    spans: tuple[Span, ...] = ()  # of characters of the text
    prompt_length: int | None = None  # its first characters that are its prompt


def read_texts(texts: list[Path], prompts: list[Path]) -> list[Text]:
    """Reads each file as one text that continues the prompt in the same place of `prompts`.

    Raises UsageError unless there is a prompt per text or none at all, and for two texts of one
    name; RecordError for a file that is empty or unreadable.
    """
    if prompts and len(prompts) != len(texts):
        raise UsageError(
            f"--prompt: expected one for each --text FILE, {len(texts)} in all, "
            f"found {len(prompts)}"
        )
    found: dict[str, Text] = {}
    for index, path in enumerate(texts):
        if path.stem in found:
            raise UsageError(f"--text {path}: an earlier text is named {path.stem}; rename one")
        prompt = prompts[index] if prompts else None
        source = f"{prompt.name} and {path.name}" if prompt else path.name
        begun = _read_whole(prompt) if prompt else None
        found[path.stem] = Text(path.stem, _read_whole(path), source, begun)
    return list(found.values())


def read_prompts(path: Path) -> list[Text]:
    """Reads one JSON value per line: a string, or an object with `prompt`, `text` or both.

    With both, the text continues the prompt. The object may have a `name`. A prompt without a name
    is called prompt-LINE. An object with one of the two may have `spans` (labelled_parts()) and
    `prompt_length` (prompt_characters()).
    """
    texts = []
    # Not splitlines: a JSON string may contain U+2028 and other line separators.
    for number, line in enumerate(read_file(path).split("\n"), 1):
        if not line.strip():
            continue
        place = f"{path}: line {number}"
        try:
            value = json.loads(line)
        except ValueError as error:
            raise RecordError(f"{place}: expected JSON: {error}") from error
        fields = {"text": value} if isinstance(value, str) else value
        parts = []
        if isinstance(fields, dict):
            parts = [fields[key] for key in ("prompt", "text") if key in fields]
        if not parts or not all(isinstance(part, str) and part for part in parts):
            raise RecordError(
                f'{place}: expected a string or {{"prompt": "...", "name": "..."}}, with '
                '"text": "..." for a given continuation'
            )
        if problem := next(filter(None, map(surrogate_of, parts)), None):
            raise RecordError(f"{place}: expected a text, found {problem}")
        name = str(fields.get("name", f"prompt-{number}")).replace("/", "_")
        if not is_name(name):
            raise RecordError(f"{place}: name: expected {NAME_FORM}, found {name!r}")
        prompt = parts[0] if len(parts) == 2 else None
        if prompt is not None and (more := {"spans", "prompt_length"} & set(fields)):
            raise RecordError(
                f"{place}: {max(more)} counts the characters of one text; join prompt and text to "
                "one text, and give its prompt_length"
            )
        spans = labelled_parts(fields, parts[-1], place)
        length = prompt_characters(fields, parts[-1], place)
        source = f"{path.name} line {number}"
        texts.append(Text(name, parts[-1], source, prompt, spans, length))
    if not texts:
        raise RecordError(f"{path}: expected prompts, found an empty file")
    names = [text.name for text in texts]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise RecordError(f"{path}: two prompts are named {twice}")
    return texts


def labelled_parts(fields: Mapping[str, object], text: str, place: str) -> tuple[Span, ...]:
    """The field `spans` of a text: a list of [first character, end, label], each half open.

    Raises RecordError for anything else and for a span that is not inside the text.
    """
    spans = fields.get("spans")
    if spans is None:
        return ()
    if not isinstance(spans, list):
        raise RecordError(
            f"{place}: spans: expected a list of [first character, end, label], found {spans!r}"
        )
    try:
        return checked_spans(spans, len(text), "characters")
    except UsageError as error:
        raise RecordError(f"{place}: {error}") from error


def prompt_characters(fields: Mapping[str, object], text: str, place: str) -> int | None:
    """The field `prompt_length` of a text: how many of its first characters are its prompt.

    None: the text does not say. Raises RecordError if no character follows.
    """
    length = fields.get("prompt_length")
    if length is None:
        return None
    if not isinstance(length, int) or isinstance(length, bool) or not 0 <= length < len(text):
        raise RecordError(
            f"{place}: prompt_length: expected 0..{len(text) - 1} characters, found {length!r}"
        )
    return length


def read_layers(text: str, num_layers: int) -> list[int]:
    """Parses a list such as 0-3,7 for a model with `num_layers` layers. Raises UsageError."""
    if not LAYERS_FORM.fullmatch(text):
        raise UsageError(f"--layers: expected layers as in 0-3,7, found {text}")
    layers: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if int(last or first) < int(first):
            raise UsageError(f"--layers: the range {part} is empty; write it as {last}-{first}")
        if int(last or first) >= num_layers:
            raise UsageError(f"--layers: expected some of 0..{num_layers - 1}, found {part}")
        layers.update(range(int(first), int(last or first) + 1))
    return sorted(layers)


def _read_whole(path: Path) -> str:
    text = read_file(path)
    if not text.strip():
        raise RecordError(f"{path}: expected a text, found an empty file")
    return text


def read_file(path: Path) -> str:
    """The text of a file in UTF-8. Raises RecordError."""
    try:
        return path.read_text("utf-8-sig")  # some editors begin a file with a byte order mark
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RecordError(f"{path}: expected UTF-8: {error.reason}") from error
