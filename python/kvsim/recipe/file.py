"""Writes and reads recipes."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..errors import DataError, KvsimError
from ..files.outputs import replaceable
from ..files.partial import written_whole

VERSION = 1
PAGE_SCORES = ("mean", "max", "min")
_PERCENT = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)%")
_SHARE = re.compile(r"[0-9]*\.[0-9]+|[0-9]+\.")
_TOKENS = re.compile(r"[0-9]{1,18}")
_FILE = re.compile(r"(?<=[:,]file=)([^,+@;]*)")


class Budget(NamedTuple):
    """One of both; neither: it is in bytes."""

    share: float | None = None  # of the text or its prompt, above 0 and at most 1
    tokens: int | None = None  # per KV head


@dataclass(frozen=True)
class Recipe:
    """A recipe as it is read."""

    path: Path
    policy: str  # the canonical spec, with the paths of its files as they are from here
    texts: Mapping[str, str]  # of every key that has one text

    @property
    def budget(self) -> str:
        return self._required("budget", "20%")

    @property
    def amount(self) -> Budget:
        """The budget as a number. Raises DataError for what is none."""
        from .. import _engine

        text = self.budget
        if _PERCENT.fullmatch(text):
            found = Budget(share=float(text[:-1]) / 100)
        elif _SHARE.fullmatch(text):
            found = Budget(share=float(text))
        elif _TOKENS.fullmatch(text):
            found = Budget(tokens=int(text))
        elif _engine.bytes_of_size(text) is not None:
            return Budget()
        else:
            found = Budget(tokens=0)
        if found.tokens == 0 or (found.share is not None and not 0 < found.share <= 1):
            raise DataError(
                f"recipe {self.path}: budget: expected a share above 0% and up to 100%, tokens "
                f"from 1 on, or bytes, such as 20%, 64 or 64KiB, found {text}"
            )
        return found

    @property
    def mode(self) -> str:
        return self.texts.get("mode", "stream")

    @property
    def eviction_interval(self) -> str:
        return self.texts.get("eviction_interval", "1")

    @property
    def page(self) -> int:
        text = self.texts.get("page", "1")
        if not text.isascii() or not text.isdigit() or int(text) < 1:
            raise DataError(f"recipe {self.path}: page: expected a number of tokens, found {text}")
        return int(text)

    @property
    def page_score(self) -> str:
        text = self.texts.get("page_score", PAGE_SCORES[0])
        if text not in PAGE_SCORES:
            known = ", ".join(PAGE_SCORES)
            raise DataError(
                f"recipe {self.path}: page_score: expected one of {known}, found {text}"
            )
        return text

    def _required(self, key: str, example: str) -> str:
        if key not in self.texts:
            raise DataError(f"recipe {self.path}: it has no key '{key}'; expected {key}: {example}")
        return self.texts[key]


def read_recipe(path: str | os.PathLike[str]) -> Recipe:
    """Reads a recipe. Raises DataError for a file that is none."""
    from .. import _engine

    texts = _engine.recipe(os.fspath(path))
    (flags,) = _engine.specs([f"recipe:file={os.fspath(path)}"], "uniform")
    return Recipe(Path(path), str(flags["text"]), texts)


def write_recipe(path: str | os.PathLike[str], fields: Mapping[str, object]) -> Path:
    """Writes a recipe of these keys; its `policy` names files as they are from here.

    An earlier recipe is replaced, any other file is not. Values are written as JSON, which is YAML.
    """
    path = checked_place(path)
    own = {**fields, "policy": _from_folder(str(fields["policy"]), path.parent)}
    lines = [f"kvsim_recipe: {VERSION}"]
    for key, value in own.items():
        if value is None:
            continue
        if isinstance(value, list):
            lines += [f"{key}:", *(f"- {_json(each)}" for each in value)]
        else:
            lines.append(f"{key}: {_json(value)}")
    with written_whole(path) as partial:
        try:
            partial.write_text("\n".join(lines) + "\n", "utf-8")
        except OSError as error:
            raise KvsimError(f"{path}: cannot be written: {error.strerror}") from error
    return path


def checked_place(path: str | os.PathLike[str]) -> Path:
    """The path, if a recipe may be written there. Raises UsageError for a file that is none."""
    return replaceable(path, "output", "recipe", _is_recipe)


def _from_folder(spec: str, folder: Path) -> str:
    """The spec with paths relative to the folder; absolute ones stay."""

    def moved(match: re.Match[str]) -> str:
        name = match[1]
        return name if not name or Path(name).is_absolute() else os.path.relpath(name, folder)

    return _FILE.sub(moved, spec)


def _json(value: object) -> str:
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: object) -> object:
    """Numbers that JSON lacks become null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return value


def _is_recipe(path: Path) -> bool:
    from .. import _engine

    try:
        _engine.recipe(str(path))
    except KvsimError:
        return False
    return True
