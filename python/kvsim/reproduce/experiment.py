"""Runs what a paper's module asks for: the closed loop over groups of texts, and generation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from .. import closed_loop
from ..errors import KvsimError
from .claims import CANNOT, SELF_BLEU, Claim, Finding, verdict_of
from .data import Group, fields_of, with_prompt
from .generation import continuations, prompts_of
from .intervals import interval_of
from .rows import Rows
from .self_bleu import self_bleu, words


@dataclass(frozen=True)
class Chosen:
    """How texts are read and evicted from, as the user chose it."""

    loop: str = "imposed"
    protocol: dict[str, str] = field(default_factory=dict)
    """Options that come before those of the paper."""
    seed: int = 0
    output: str | None = None


@dataclass(frozen=True)
class Generation:
    """How texts are generated, in tokens and words. `new_tokens` 0: none is."""

    prompt_tokens: int = 256
    new_tokens: int = 64
    temperature: float = 1.0
    order: int = 4


@dataclass
class Experiment:
    """A model with the texts and options of a command."""

    model: Any
    tokenizer: Any
    groups: Sequence[Group]
    asked_budgets: Sequence[str] | None = None
    chosen: Chosen = field(default_factory=Chosen)
    generation: Generation = field(default_factory=Generation)
    lengths: Sequence[int] | None = None

    def budgets(self, usual: Sequence[str], *needed: str) -> list[str]:
        """The budgets asked for, or else the usual ones; and those that the claims name."""
        return list(dict.fromkeys([*(self.asked_budgets or usual), *needed]))

    def measure(
        self,
        group: Group,
        policies: dict[str, str],
        budgets: Sequence[str],
        *,
        protocol: dict[str, str] | None = None,
        loop: str | None = None,
        is_steady: bool = False,
    ) -> Rows:
        """Evaluates policies, given as specs by name, on a group of texts.

        `protocol` is the paper's, `loop` what the policies need; the user's choice of the former
        comes first. `is_steady`: each step evicts, whatever the user chose, since the policies can
        do nothing else.
        """
        chosen = self.chosen
        asked = {**(protocol or {}), **chosen.protocol}
        if is_steady:
            asked["eviction_interval"] = "1"
        has_prompt = asked.get("mode") == "prefill"
        texts = [with_prompt(text) if has_prompt else text for text in group.texts]
        frame = closed_loop.evaluate(
            self.model,
            [fields_of(text) for text in texts],
            list(policies.values()),
            list(budgets),
            tokenizer=self.tokenizer,
            loop=loop or chosen.loop,
            seed=chosen.seed,
            output=chosen.output,
            **asked,
        )
        return self._rows(group.name, frame, policies)

    def measure_beginnings(
        self, group: Group, policies: dict[str, str], budget: str, tokens: int
    ) -> Rows | None:
        """Evaluates likelihood alone on the first `tokens` tokens of every text, in stream mode.

        Shorter texts are left out; None if all of them are.
        """
        ids = {text.name: list(self.tokenizer(text.text)["input_ids"]) for text in group.texts}
        cut = {f"{name}-{tokens}": one[:tokens] for name, one in ids.items() if len(one) >= tokens}
        if not cut:
            return None
        frame = closed_loop.evaluate(
            self.model, list(cut.values()), list(policies.values()), [budget],
            tokenizer=self.tokenizer, names=list(cut), loop=self.chosen.loop, mode="stream",
            seed=self.chosen.seed, output=self.chosen.output,
        )  # fmt: skip
        return self._rows(f"{group.name}, {tokens} tokens", frame, policies)

    def diversity(
        self, claim: Claim, policies: dict[str, str], order: Sequence[tuple[str, str]], budget: str
    ) -> Iterator[Finding]:
        """Self-BLEU of generated texts, for every pair (more diverse, less diverse) of policies.

        The interval is over prompts: of the difference in BLEU of the texts that both policies
        continue it with, each against all others of its policy.
        """
        asked = self.generation
        if asked.new_tokens == 0:
            yield Finding(claim, f"{CANNOT}--new-tokens is 0")
            return
        for group in self.groups:
            prompts = prompts_of(self.tokenizer, group, asked.prompt_tokens)
            if len(prompts) < 2:
                yield Finding(claim, f"{CANNOT}Self-BLEU takes 2 prompts or more", group.name)
                continue
            scores = {}
            for name, spec in policies.items():
                texts = continuations(
                    self.model, self.tokenizer, prompts.values(), spec, budget,
                    asked.new_tokens, asked.temperature, self.chosen.seed,
                )  # fmt: skip
                said = self_bleu([words(text) for text in texts], asked.order)
                scores[name] = pd.Series(said, index=list(prompts))
            for first, second in order:
                yield _of_scores(claim, group.name, scores, first, second)

    def _rows(self, texts: str, frame: pd.DataFrame, policies: dict[str, str]) -> Rows:
        return Rows(texts, frame, {name: canonical(spec) for name, spec in policies.items()})


def _of_scores(
    claim: Claim, texts: str, scores: dict[str, pd.Series], first: str, second: str
) -> Finding:
    a, b = scores[first], scores[second]
    interval = interval_of(a - b)
    return Finding(
        claim, verdict_of(interval, higher_is_better=False), texts, SELF_BLEU,
        first, float(a.mean()), second, float(b.mean()),
        interval.mean, interval.low, interval.high, interval.samples, "adaptive", "prefill",
    )  # fmt: skip


def canonical(spec: str) -> str:
    """The spec as rows have it: every parameter with its value."""
    from .. import _engine

    found = _engine.specs(spec, "uniform")
    if len(found) != 1:
        raise KvsimError(f"{spec}: expected one policy, found {len(found)}")
    return str(found[0]["text"])
