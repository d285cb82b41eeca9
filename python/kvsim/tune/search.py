"""The search in open loop: Optuna proposes specs, a batch at a time, and hears what they lose."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _engine
from ..errors import KvsimError, KvsimWarning, UsageError

if TYPE_CHECKING:
    import optuna

    from .space import Hole, Space

BATCH = 16  # specs of one pass: they share the attention of each unit
RESULTS, LOG, RECIPE = "results.sqlite", "search.log", "recipe.yaml"
# Attributes of a trial: its canonical spec; how many were finished before its batch, and its size.
_SPEC, _BATCH = "spec", "batch"

# Of specs, which share a pass; those that the engine refuses are left out.
Losses = Callable[[Sequence[str]], Mapping[str, float]]
Announce = Callable[[str], object]
# The number of a trial, and its canonical spec; None: the engine refuses it.
Asked = tuple[int, str | None]


def load_optuna() -> Any:
    """The module, quiet. Raises KvsimError where it is not installed."""
    try:
        import optuna
    except ImportError as error:
        raise KvsimError(f"{error}; pip install 'kvsim[tune]'") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def storage_in(folder: Path) -> Any:
    """Where the trials of a search are kept, so that it goes on after an interruption."""
    optuna = load_optuna()
    path = folder / LOG
    try:
        _check_lines(path)
        backend = optuna.storages.journal.JournalFileBackend(str(path))
        storage = optuna.storages.JournalStorage(backend)
        storage.get_all_studies()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise KvsimError(
            f"{path}: expected the trials of a search: {error}; remove it, and the search starts "
            f"anew with the rows of {folder / RESULTS}"
        ) from error
    return storage


def _check_lines(path: Path) -> None:
    """Raises ValueError for a line that is no JSON, which Optuna finds when it has written more.

    A process that is killed while it writes leaves a last line without an end, which is dropped.
    """
    if not path.exists():
        return
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            json.loads(line)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    if len(whole) < len(data):
        with path.open("r+b") as file:
            file.truncate(len(whole))


def search(
    space: Space,
    losses: Losses,
    trials: int,
    seed: int,
    storage: Any,
    name: str,
    announce: Announce = lambda line: None,
) -> dict[str, float]:
    """Tries `trials` specs of the space, or all where it has no more. Returns what they lose.

    A spec that the engine refuses, as one with two additions that exclude each other, counts as a
    trial without a result, and so does one whose loss is no number. The study `name` in the storage
    goes on where it ended; of more trials than are asked for, the first ones count.
    """
    optuna = load_optuna()
    is_whole = space.size <= trials
    name += "-whole" if is_whole else ""
    study = optuna.create_study(storage=storage, study_name=name, load_if_exists=True)
    _end_interrupted(study, losses)
    if is_whole:
        trials = int(space.size)
        for chosen in islice(space.every(), len(study.trials), None):
            study.enqueue_trial(chosen)
    done = _finished(study)
    while len(done) < trials:
        study.sampler = _sampler((seed * 1_000_003 + len(done)) % 2**32)
        count = min(BATCH, trials - len(done))
        asked = [_asked(study, space, (len(done), count)) for _ in range(count)]
        _tell(study, asked, losses)
        done = _finished(study)
        found = _values(done)
        if found:
            best = min(found, key=found.__getitem__)
            announce(
                f"open loop: {len(done)} of {trials} trials, {len(found)} different specs, "
                f"best {found[best]:.4g} by {best}"
            )
    found = _values(done[:trials])
    if not found:
        raise UsageError(
            f"space '{space.text}': the engine refuses every spec that was tried; the "
            "warnings say why"
        )
    return found


def _sampler(seed: int) -> optuna.samplers.BaseSampler:
    """A new one per batch, so that a search that goes on does what an uninterrupted one does."""
    optuna = load_optuna()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.TPESampler(seed=seed, constant_liar=True)


def _asked(study: optuna.Study, space: Space, batch: tuple[int, int]) -> Asked:
    trial = study.ask()

    def choose(hole: Hole) -> str:
        if hole.choices:
            return trial.suggest_categorical(hole.name, hole.choices)
        if hole.is_real:
            return hole.written(trial.suggest_float(hole.name, hole.low, hole.high))
        return hole.written(trial.suggest_int(hole.name, int(hole.low), int(hole.high)))

    spec = _canonical(space.spec(choose))
    trial.set_user_attr(_SPEC, spec)
    trial.set_user_attr(_BATCH, batch)  # the last: a trial that has it was asked to its end
    return trial.number, spec


def _tell(study: optuna.Study, asked: Sequence[Asked], losses: Losses) -> None:
    pruned = load_optuna().trial.TrialState.PRUNED
    found = losses(list(dict.fromkeys(spec for _, spec in asked if spec is not None)))
    for number, spec in asked:
        if spec not in found:
            study.tell(number, state=pruned)
        elif math.isfinite(found[spec]):
            study.tell(number, found[spec])
        else:
            note = f"a trial has no result: the loss of {spec} is {found[spec]}"
            warnings.warn(note, KvsimWarning, stacklevel=2)
            study.tell(number, state=pruned)


def _canonical(spec: str) -> str | None:
    """None: the engine refuses it."""
    try:
        (flags,) = _engine.specs([spec], "uniform")
    except UsageError:
        return None
    return str(flags["text"])


def _end_interrupted(study: optuna.Study, losses: Losses) -> None:
    """Ends a batch that was interrupted; what was measured of it is in the result file.

    One that was asked in full is told to its end, so that all batches are those of an uninterrupted
    search. One that was asked in part, of which nothing is told, is asked again.
    """
    states = load_optuna().trial.TrialState
    running = study.get_trials(deepcopy=False, states=(states.RUNNING,))
    batch = running[-1].user_attrs.get(_BATCH) if running else None
    there = study.get_trials(deepcopy=False)
    alike = [each for each in there if each.user_attrs.get(_BATCH) == batch]
    if batch is not None and sum(each.state != states.FAIL for each in alike) == batch[1]:
        _tell(study, [(each.number, each.user_attrs[_SPEC]) for each in running], losses)
        return
    for trial in running:
        study.tell(trial.number, state=states.FAIL)
        if fixed := trial.system_attrs.get("fixed_params"):
            study.enqueue_trial(fixed)


def _finished(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    states = load_optuna().trial.TrialState
    return study.get_trials(deepcopy=False, states=(states.COMPLETE, states.PRUNED))


def _values(trials: list[optuna.trial.FrozenTrial]) -> dict[str, float]:
    return {
        trial.user_attrs[_SPEC]: trial.value
        for trial in trials
        if trial.value is not None and math.isfinite(trial.value)
    }
