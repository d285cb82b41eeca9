"""Prose that hides needles, in sentences."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...errors import RecordError, UsageError
from ...trace.spans import Span

BUNDLED = Path(__file__).with_name("haystack.txt")
LONGEST_SENTENCE = 60  # words; what has none ends, as code, is cut there
_END = re.compile(r"[.!?][\"')\]”’]*$")  # of the last word of a sentence

Needle = tuple[float, str, str]  # depth, from 0 to 1; sentence; label of its span


class Haystack:
    """Texts as sentences of words, without line breaks. They begin again where they end."""

    def __init__(self, texts: Iterable[str]) -> None:
        sentence: list[str] = []
        self._sentences: list[list[str]] = []
        for word in " ".join(texts).split():
            sentence.append(word)
            if _END.search(word) or len(sentence) == LONGEST_SENTENCE:
                self._sentences.append(sentence)
                sentence = []
        self._sentences += [sentence] if sentence else []
        if not self._sentences:
            raise UsageError("haystack: expected a text with words, found none")

    def __len__(self) -> int:
        """How many sentences there are."""
        return len(self._sentences)

    def excerpt(self, first: int, words: int) -> list[str]:
        """Sentences from this one on, so many words in all; the last one may be cut."""
        found: list[str] = []
        while words > 0:
            sentence = self._sentences[first % len(self)][:words]
            found.append(" ".join(sentence))
            words -= len(sentence)
            first += 1
        return found


def read_haystack(texts: Sequence[str | Path] | None) -> Haystack:
    """Texts, and those that files hold; None: the bundled one.

    Raises UsageError for a file that cannot be read, and for texts without words.
    """
    from ...model.texts import read_file

    if isinstance(texts, (str, Path)):
        texts = [texts]
    try:
        return Haystack(
            read_file(text) if isinstance(text, Path) else text
            for text in ([BUNDLED] if texts is None else texts)
        )
    except RecordError as error:
        raise UsageError(f"haystack: {error}") from error


def hide(sentences: Sequence[str], needles: Iterable[Needle]) -> tuple[str, list[Span]]:
    """Sentences with needles between them, and the spans of the needles.

    A needle of depth d stands where a sentence begins that is nearest to the share d of all
    characters. Of needles of one place, those of less depth come first.
    """
    begins = [0]
    for sentence in sentences:
        begins.append(begins[-1] + len(sentence) + 1)
    needles = sorted(needles, key=lambda needle: needle[0])
    places = [_nearest(begins, depth * begins[-1]) for depth, _, _ in needles]
    parts: list[str] = []
    spans: list[Span] = []
    at, done = 0, 0
    for place, (_, needle, label) in zip(places, needles, strict=True):
        parts += [*sentences[done:place], needle]
        at += begins[place] - begins[done]
        spans.append(Span(at, at + len(needle), label))
        at += len(needle) + 1
        done = place
    return " ".join([*parts, *sentences[done:]]), spans


def _nearest(begins: Sequence[int], at: float) -> int:
    after = bisect_left(begins, at)
    before = max(after - 1, 0)
    return before if at - begins[before] <= begins[after] - at else after
