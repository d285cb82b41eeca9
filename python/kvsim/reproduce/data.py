"""The texts of an experiment, in groups that a paper distinguishes: lengths, numbers of shots."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..closed_loop.texts import InputText, input_texts
from ..errors import UsageError
from ..model.spans import with_offsets
from ..model.texts import read_texts

BUNDLED = "texts.jsonl"  # where no texts are given: in the model's folder, or next to it


@dataclass(frozen=True)
class Group:
    """Texts of one file; each has a name."""

    name: str
    texts: tuple[InputText, ...]


def read_groups(
    jsonl: list[Path], plain: list[Path], model: str, count: int, tokenizer: Any, tokens: int
) -> list[Group]:
    """The first `count` texts of every file of JSON lines, and pieces of plain texts as one group.

    Without files, those of `texts.jsonl` in the model's folder or in the folder that holds it.
    Plain texts are cut into pieces of `tokens` tokens, of which each file gives `count`. Raises
    UsageError if there is no text, a file is too short for a piece, or a name stands twice, and
    RecordError for a file that is not as documented.
    """
    if not jsonl and not plain:
        folder = Path(model).resolve()
        own = [path for path in (folder / BUNDLED, folder.parent / BUNDLED) if path.is_file()]
        if not own or not folder.is_dir():
            raise UsageError(
                f"--texts: expected FILE.jsonl, or --text FILE, since there is no {BUNDLED} with "
                f"{model}"
            )
        jsonl = own[:1]
    groups = [Group(path.stem, _named(path, count)) for path in jsonl]
    if plain:
        pieces = [piece for path in plain for piece in _pieces(path, tokenizer, tokens)[:count]]
        groups.append(Group("plain text", tuple(pieces)))
    names = [group.name for group in groups]
    names += [str(text.name) for group in groups for text in group.texts]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UsageError(f"--texts: two files or texts are named {twice[0]}; rename one")
    return groups


def with_prompt(text: InputText) -> InputText:
    """The text with a prompt that ends before its first question, or else its first answer.

    A prompt that the text has stays. Raises UsageError if there is neither.
    """
    if text.prompt_length is not None:
        return text
    for label in ("question", "answer"):
        starts = [span.start for span in text.spans if span.label == label and span.start > 0]
        if starts:
            return replace(text, prompt_length=min(starts))
    raise UsageError(
        f"{text.source}: has no prompt that could be cut to a budget; give it prompt_length, or "
        "spans labelled question or answer, or use --mode stream"
    )


def fields_of(text: InputText) -> dict[str, Any]:
    """The text as `kvsim.evaluate` takes it: the fields of a line of JSON."""
    found: dict[str, Any] = {"text": text.text, "name": text.name, "spans": list(text.spans)}
    if text.prompt_length is not None:
        found["prompt_length"] = text.prompt_length
    return found


def _named(path: Path, count: int) -> tuple[InputText, ...]:
    texts = input_texts(path)
    return tuple(
        replace(text, name=text.name or f"{path.stem}-{number}")
        for number, text in enumerate(texts[:count], 1)
    )


def _pieces(path: Path, tokenizer: Any, tokens: int) -> list[InputText]:
    """The text in pieces that have `tokens` tokens with the special ones; the rest is left out."""
    (text,) = read_texts([path], [])
    characters = with_offsets(tokenizer, text.text, add_special_tokens=False).characters
    size = tokens - tokenizer.num_special_tokens_to_add()
    found = [
        InputText(
            text.text[characters[at][0] : characters[at + size - 1][1]],
            f"{path.name} from token {at}",
            f"{path.stem}-{at}",
        )
        for at in range(0, len(characters) - size + 1, size)
    ]
    if not found:
        raise UsageError(
            f"--tokens {tokens}: {path} has {len(characters)} tokens; give it a smaller number"
        )
    return found
