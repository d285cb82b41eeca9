"""Successive halving of the finalists: half of them go on, to twice as many texts.

Jamieson and Talwalkar 2016 (arXiv 1502.07943), Algorithm 1, as a pruner of Optuna.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from .search import Announce, load_optuna

# The mean loss of each spec over the first texts, so many of them.
LossesOn = Callable[[Sequence[str], int], Mapping[str, float]]


def rungs(finalists: int, texts: int) -> list[tuple[int, int]]:
    """How many candidates meet on how many texts: the last two on all of them.

    A rung that would see the texts of the one before is left out: it would measure nothing new.

    >>> rungs(8, 8)
    [(8, 2), (4, 4), (2, 8)]
    """
    candidates = [finalists]
    while candidates[-1] > 2:
        candidates.append(math.ceil(candidates[-1] / 2))
    last = len(candidates) - 1
    found: dict[int, int] = {}
    for i, count in enumerate(candidates):
        found.setdefault(math.ceil(texts / 2 ** (last - i)), count)
    return [(count, on) for on, count in found.items()]


def halved(
    finalists: Sequence[str],
    texts: int,
    losses: LossesOn,
    storage: Any,
    name: str,
    announce: Announce = lambda line: None,
) -> dict[str, tuple[int, float]]:
    """Per finalist, on how many texts it was measured last, and its mean loss there.

    The study `name` is made anew: rows that are there are not measured again.
    """
    optuna = load_optuna()
    if name in optuna.get_all_study_names(storage):
        optuna.delete_study(study_name=name, storage=storage)
    steps = rungs(len(finalists), texts)
    pruner = _pruner(optuna, {on: after[0] for (_, on), after in pairwise(steps)})
    study = optuna.create_study(storage=storage, study_name=name, pruner=pruner)
    trials = {}
    for spec in finalists:
        study.enqueue_trial({"policy": spec})
        trials[spec] = study.ask()
        trials[spec].suggest_categorical("policy", list(finalists))
    reached: dict[str, tuple[int, float]] = {}
    for count, on in steps:
        found = losses(list(trials), on)
        for spec, trial in trials.items():
            reached[spec] = (on, found[spec])
            trial.report(_comparable(found[spec]), on)
        best = min(trials, key=lambda spec: _comparable(found[spec]))
        announce(
            f"imposed loop: {count} finalists on {on} text{'' if on == 1 else 's'}, "
            f"best {found[best]:.4g} by {best}"
        )
        pruned = [spec for spec, trial in trials.items() if trial.should_prune()]
        for spec in pruned:
            study.tell(trials.pop(spec), state=optuna.trial.TrialState.PRUNED)
    for spec, trial in trials.items():
        study.tell(trial, _comparable(reached[spec][1]))
    return reached


def _comparable(loss: float) -> float:
    """A loss that is no number is the largest one."""
    return math.inf if math.isnan(loss) else loss


def _pruner(optuna: Any, kept_after: Mapping[int, int]) -> Any:
    """Keeps so many of the trials that came to a step, by step; after the last one, all."""

    class Halving(optuna.pruners.BasePruner):
        def prune(self, study: Any, trial: Any) -> bool:
            step = trial.last_step
            there = [
                (each.intermediate_values[step], each.number)
                for each in study.get_trials(deepcopy=False)
                if each.last_step == step
            ]
            kept = sorted(there)[: kept_after.get(step, len(there))]
            return (trial.intermediate_values[step], trial.number) not in kept

    return Halving()
