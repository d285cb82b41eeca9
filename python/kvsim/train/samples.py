"""What a scorer learns from: the features of tokens in caches, and what became of the tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError, UsageError
from ..labels.units import Labelling, UnitLabels
from ..policy import Policy, Rules
from ..verbs.replay import replay
from .features import Features, width_of

if TYPE_CHECKING:
    from ..trace import Trace
    from .wanted import Wanted

STEPS = 16
"""Samples are taken at every so many steps."""
TOKENS = 48
"""Of each cache at such a step so many tokens, drawn at random."""
LITTLE = 0.1
"""What is added to attention before its logarithm, in steps: less than this counts alike."""


@dataclass
class Samples:
    """float32 [samples, columns], and the targets [samples]."""

    features: np.ndarray
    targets: np.ndarray


def joined(parts: Sequence[Samples]) -> Samples:
    """All samples of several texts. Raises DataError if there is none."""
    features, targets = [part.features for part in parts], [part.targets for part in parts]
    if sum(map(len, targets)) == 0:
        raise DataError(
            "there are no samples: a cache evicts at none of the steps that are sampled, every "
            f"{STEPS}th; take longer texts or smaller budgets"
        )
    return Samples(np.concatenate(features), np.concatenate(targets))


def samples_of(
    trace: Trace,
    sequence: str,
    group: dict[str, int],
    wanted: Wanted,
    header: dict[str, Any],
    most: int,
) -> Samples:
    """The samples of a text, of the units of a scorer: a layer and a KV head, a layer, or all.

    Of more than `most` so many are drawn.
    """
    options: dict[str, Any] = {"sequences": [sequence]}
    options |= {f"{name.removeprefix('kv_')}s": number for name, number in group.items()}
    # The optimum takes its time, and is asked for only where a target needs it.
    budgets = None if wanted.target == "future" else wanted.budgets
    columns = width_of(wanted.features, header)
    parts = [Samples(np.zeros((0, columns), np.float32), np.zeros(0, np.float32))]
    for labels in Labelling(trace, budgets, STEPS, options).units():
        parts += _samples_of_unit(trace, labels, wanted, header["keys"] == "unrotated")
    features = np.concatenate([part.features for part in parts])
    targets = np.concatenate([part.targets for part in parts])
    if len(targets) > most:
        drawn = np.random.default_rng(wanted.seed).choice(len(targets), most, replace=False)
        drawn.sort()
        features, targets = features[drawn], targets[drawn]
    return Samples(features, targets)


def _samples_of_unit(
    trace: Trace, labels: UnitLabels, wanted: Wanted, unrotated: bool
) -> Iterator[Samples]:
    unit = {"sequence": labels.sequence, "layer": labels.layer, "kv_head": labels.kv_head}
    seen = set()
    for budget in wanted.budgets:
        found = replay(trace, wanted.policy, budget, **unit, reference="none")
        tokens, left = int(found.row.budget), found.evicted_after
        if tokens in seen:  # as labels have it: shares of a short text may be the same tokens
            continue
        seen.add(tokens)
        drawn = np.random.default_rng([wanted.seed, tokens, labels.layer, labels.kv_head])
        follower, noted = _follower(wanted.features, left, unrotated, drawn)
        followed = replay(trace, follower, budget, **unit, reference="none").evicted_after
        if not np.array_equal(followed, left):
            raise UsageError(
                f"policy: expected one whose caches hold the budget and lose a token at a time, "
                f"found {wanted.policy}; take h2o, or another one without drop"
            )
        place = labels.budgets.index(tokens) if labels.budgets else 0
        if noted:
            targets = [_target(wanted.target, labels, place, t, held) for t, held, _ in noted]
            yield Samples(np.concatenate([x for *_, x in noted]), np.concatenate(targets))


Noted = list[tuple[int, np.ndarray, np.ndarray]]  # steps, tokens, their features


def _follower(
    names: list[str], left_after: np.ndarray, unrotated: bool, drawn: np.random.Generator
) -> tuple[type[Policy], Noted]:
    """A policy that keeps what another one kept, and where it notes the features of that."""
    noted: Noted = []

    class Follower(Policy):
        name = "training-samples"
        rules = Rules(sees_values=True, sees_kinds=True, sees_rotation=unrotated)

        def __init__(self, budget: int) -> None:
            self.features: Features | None = None

        def update(self, step: Any, scores: np.ndarray) -> None:
            if self.features is None:
                rotation = self.rotation if unrotated else None
                self.features = Features(names, len(left_after), rotation)
            self.features.add(step)
            scores[:] = left_after[step.tokens]
            if (step.index + 1) % STEPS == 0 and step.overflow > 0:
                slots = np.arange(len(step.tokens))
                if len(slots) > TOKENS:
                    slots = np.sort(drawn.choice(slots, TOKENS, replace=False))
                columns = self.features.columns(step)[slots].astype(np.float32)
                noted.append((step.index, step.tokens[slots].copy(), columns))

    return Follower, noted


def _target(kind: str, labels: UnitLabels, place: int, step: int, tokens: np.ndarray) -> np.ndarray:
    arrays = labels.arrays
    if kind == "optimum":
        return (arrays["optimal_evicted_after"][place, tokens] > step).astype(np.float32)
    later = _attention_after(arrays["future_attention_blocks"], step, len(arrays["next_access"]))
    expected = np.log(later[tokens] + LITTLE)
    if kind == "price":  # the dual variables of the optimum are 0 or more, up to rounding
        expected -= np.log(max(arrays["slot_price"][place, step], 0) + LITTLE)
    return expected.astype(np.float32)


def _attention_after(blocks: np.ndarray, step: int, num_tokens: int) -> np.ndarray:
    """[n], summed over all steps after `step`, which ends a block."""
    first = (step + 1) // STEPS
    lengths = np.minimum(STEPS, num_tokens - STEPS * np.arange(first, len(blocks)))
    return lengths @ blocks[first:]
