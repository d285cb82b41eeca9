"""kvsim.tune: which policy, with which parameters, loses least at a budget."""

from __future__ import annotations

import hashlib
import json
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _engine
from ..errors import DataError, KvsimWarning, UsageError
from . import settings
from .open_loop import OpenLoop, objective_of
from .search import RESULTS, Announce, load_optuna, search, storage_in
from .space import DEFAULT, Space, parse_space
from .texts import HeldOut, Text, split_texts

if TYPE_CHECKING:
    from os import PathLike

    import pandas as pd

    from .imposed import ImposedLoop
    from .tuned import Tuned

RECIPE, RANKED, FIGURE = "recipe.yaml", "ranked.csv", "loss.png"
_DEFAULTS_IN_MODEL = 3  # a forward pass per text and budget for each


def tune(
    source: Any,
    budget: str | float,
    *,
    space: str | None = None,
    objective: str | None = None,
    texts: object = None,
    held_out: HeldOut = None,
    trials: int = 64,
    finalists: int = 8,
    output: str | PathLike[str] | None = None,
    mode: str = "stream",
    eviction_interval: int | str = 1,
    page: int = 1,
    page_score: str = "mean",
    prompt_length: int | None = None,
    tokenizer: Any = None,
    figure_budgets: Sequence[str | float] | None = None,
    name: str | None = None,
    seed: int = 0,
    progress: Any = None,
) -> Tuned:
    """Searches the policy that loses least at a budget, and measures it on texts it did not see.

    >>> tuned = kvsim.tune("trace.h5", "20%", space="h2o:recent={0..0.9};tova", output="tuned")
    >>> kvsim.sweep("trace.h5", f"tova;recipe:file={tuned.recipe}", "20%")

    Three stages. In open loop, `trials` specs are replayed on traces of the search texts, many at a
    time; Optuna's TPE sampler proposes them. With a model, the `finalists` best ones are then
    imposed on it by successive halving: half of them go on, to twice as many texts. The result is
    measured on held-out texts, with simple policies at their defaults and the optimum.

    Arguments:
      source: a trace or a list of traces (a path ends in .h5): open loop alone. Or a model, as for
        kvsim.evaluate, with `texts`; a trace of the search texts is recorded.
      budget: one, as for kvsim.sweep: "20%", 64, "64KiB".
      space: entries separated by ";". A spec with `{a,b}`, one of these, and `{0..0.9}`, `{1..64}`,
        a number between the two, a whole one if both are; and entries that begin with "+" or "@",
        each of which a policy may have in addition. None: a space of ten policies.
      objective: of the open loop: predicted_kl, projected_error, output_error_sq or attention_loss.
        None: the first that the traces can tell.
      texts: of a model, as for kvsim.evaluate.
      held_out: names of texts, or a share such as "30%" or 0.3, of the last ones. None: a third.
      trials: specs that are tried; all of a space that has no more.
      finalists: specs that are imposed on the model; of traces those measured on held-out texts.
      output: a folder for results.sqlite, search.log, recipe.yaml, ranked.csv, loss.png. The same
        call goes on there after an interruption and repeats nothing. Without it nothing is kept.
      mode, eviction_interval, page, page_score, seed: as for kvsim.sweep. `seed` also of the search
        and of intervals: the same seed, the same result.
      prompt_length: in tokens, of all texts of a model. tokenizer: of the texts; None: the model's.
      figure_budgets: further budgets of the figure; None: half of it and twice as much.
      name: a label of the recipe for tables and figures.
      progress: as for kvsim.sweep.

    Returns a Tuned. Raises UsageError for arguments that cannot be meant, KvsimError without
    Optuna, and what kvsim.sweep and kvsim.evaluate raise.
    """
    arguments = dict(locals())
    return tune_as(announce=lambda line: None, **arguments)


def tune_as(announce: Announce, *, output: Any, **arguments: Any) -> Tuned:
    """`tune`; `announce` gets a line now and then."""
    load_optuna()
    with ExitStack() as stack:
        if output is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kvsim-")))
        else:
            folder = Path(output)
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UsageError(f"output: {folder}: no folder there: {error.strerror}") from error
        return _tune(announce, folder, output is not None, **arguments)


def _tune(
    announce: Announce,
    folder: Path,
    is_kept: bool,
    *,
    source: Any,
    budget: str | float,
    space: str | None,
    objective: str | None,
    texts: object,
    held_out: HeldOut,
    trials: int,
    finalists: int,
    prompt_length: int | None,
    tokenizer: Any,
    figure_budgets: Sequence[str | float] | None,
    name: str | None,
    progress: Any,
    **protocol: Any,
) -> Tuned:
    settings.whole("trials", trials, 1), settings.whole("finalists", finalists, 1)
    seed = settings.whole("seed", protocol["seed"], 0)
    settings.whole("page", protocol["page"], 1)
    request = settings.budget_text(budget)
    traces = settings.traces_of(source)
    has_model = traces is None
    if has_model != (texts is not None):
        raise UsageError(
            "texts: a model needs texts" if has_model else "texts: traces hold their own; leave out"
        )
    parsed = parse_space(space or DEFAULT, settings.refusal(protocol, has_model))
    model = None
    if has_model:
        from .imposed import ImposedLoop

        output = folder / RESULTS
        model = ImposedLoop(source, texts, tokenizer, prompt_length, protocol, output, progress)
        of_search, held = split_texts(model.texts(), held_out)
        announce(f"recording {len(of_search)} texts to search on")
        traces = [model.recorded([text.name for text in of_search], folder)]
    loop = OpenLoop(traces, protocol, folder / RESULTS, progress)
    if not has_model:
        of_search, held = split_texts(loop.texts(), held_out)
    stages = _Stages(
        loop, model, parsed, request, objective, of_search, held, seed, folder, announce
    )
    found = stages.in_open_loop(trials, protocol)
    reached = stages.imposed(found, finalists)
    budgets = settings.budgets_around(request, protocol["page"])
    if figure_budgets is not None:
        budgets = [request, *(settings.budget_text(each) for each in figure_budgets)]
    tuned = stages.on_held_out(found, reached, finalists, list(dict.fromkeys(budgets)))
    return _kept(tuned, stages, folder, name, protocol) if is_kept else tuned


class _Stages:
    """The stages of a search, one after the other."""

    def __init__(
        self,
        loop: OpenLoop,
        model: ImposedLoop | None,
        space: Space,
        budget: str,
        objective: str | None,
        of_search: Sequence[Text],
        held: Sequence[Text],
        seed: int,
        folder: Path,
        announce: Announce,
    ) -> None:
        self.loop, self.model, self.space, self.budget = loop, model, space, budget
        self.of_search, self.held, self.seed = of_search, held, seed
        self.announce = announce
        self._searched = [text.name for text in of_search]
        self._storage = storage_in(folder)
        self.defaults = settings.canonical(settings.DEFAULTS)
        rows = loop.rows(self.defaults, [budget], self._searched)
        self.objective = objective_of(rows, objective)
        self._of_defaults = dict(rows.groupby("policy")[self.objective].mean())
        self._study = ""

    def in_open_loop(self, trials: int, protocol: Mapping[str, Any]) -> dict[str, float]:
        """The mean loss of each spec that was tried, over the texts of the search."""
        codes = [
            flags["policy_code"]
            for part in self.space.policies
            for flags in _engine.specs([part.first], "uniform")
        ]
        of = [
            self.space.text, codes, self.budget, self.objective, {**protocol},
            [text.text_id for text in self.of_search], self.loop.trace_ids(),
        ]  # fmt: skip
        digest = hashlib.sha256(json.dumps(of, default=str).encode()).hexdigest()
        self._study = digest[:12]
        return search(
            self.space, self._losses, trials, self.seed, self._storage,
            f"open-loop-{self._study}", self.announce,
        )  # fmt: skip

    def _losses(self, specs: Sequence[str]) -> dict[str, float]:
        try:
            return self._means(specs)
        except (UsageError, DataError):
            if len(specs) == 1:
                raise
        found, refused = {}, None
        for spec in specs:
            try:
                found |= self._means([spec])
            except (UsageError, DataError) as error:
                refused = error
        if not found:
            raise refused
        return found

    def _means(self, specs: Sequence[str]) -> dict[str, float]:
        from .ranking import mean_losses

        if not specs:
            return {}
        rows = self.loop.rows(specs, [self.budget], self._searched)
        return mean_losses(rows, self.objective, specs)

    def imposed(self, found: Mapping[str, float], finalists: int) -> dict[str, tuple[int, float]]:
        """Per finalist on how many texts it was imposed last, and its KL there; empty for traces"""
        from .halving import halved
        from .imposed import KL
        from .ranking import best_of, mean_losses

        if self.model is None:
            return {}
        (trace,) = self.loop.traces

        def losses(specs: Sequence[str], count: int) -> dict[str, float]:
            rows = self.model.rows(specs, [self.budget], self._searched[:count], trace)
            return mean_losses(rows, KL, specs)

        best = best_of(found, finalists)
        return halved(
            best, len(self._searched), losses, self._storage, f"finalists-{self._study}",
            self.announce,
        )  # fmt: skip

    def on_held_out(
        self,
        found: Mapping[str, float],
        reached: Mapping[str, tuple[int, float]],
        finalists: int,
        budgets: Sequence[str],
    ) -> Tuned:
        """Measures the best specs, the defaults and the optimum on the held-out texts."""
        from . import ranking
        from .imposed import KL
        from .tuned import Tuned

        candidates, defaults = ranking.best_of(found, finalists), self.defaults
        loss = self.objective
        if reached:
            last = max(texts for texts, _ in reached.values())
            final = {spec: kl for spec, (texts, kl) in reached.items() if texts == last}
            candidates, loss = ranking.best_of(final, len(final)), KL
            defaults = ranking.best_of(self._of_defaults, _DEFAULTS_IN_MODEL)
        winner = candidates[0]
        roles = dict.fromkeys(found, ranking.FOUND) | dict.fromkeys(defaults, ranking.DEFAULT)
        roles[winner] = ranking.FOUND
        asked = list(dict.fromkeys([*candidates, *defaults]))
        self.announce(f"held-out texts: {len(asked)} policies on {len(self.held)}")
        rows, optimum = self._with_optimum(asked, budgets)
        roles |= dict.fromkeys(optimum, ranking.OPTIMUM)
        held = ranking.HeldOut(rows[rows["budget_request"] == self.budget], loss, self.seed)
        means = held.means()
        best_default = min(defaults, key=lambda spec: (means[spec], spec))
        table = ranking.ranked(roles, {**self._of_defaults, **found}, reached,
                               held.frame(best_default), winner)  # fmt: skip
        drawn = rows[rows["policy"].isin([winner, *defaults, *optimum])]
        points = ranking.curve_points(drawn, loss, roles, self.seed)
        return Tuned(
            winner, None, loss, self.objective, table, points, tuple(self._searched),
            tuple(text.name for text in self.held),
        )  # fmt: skip

    def _held_rows(self, specs: Sequence[str], budgets: Sequence[str]) -> pd.DataFrame:
        names = [text.name for text in self.held]
        if self.model is None:
            return self.loop.rows(specs, budgets, names)
        return self.model.rows(specs, budgets, names)

    def _with_optimum(
        self, specs: Sequence[str], budgets: Sequence[str]
    ) -> tuple[pd.DataFrame, list[str]]:
        """Also measures the optimum, unless the protocol rules it out; with its spec."""
        optimum = settings.optimum(self.objective)
        try:
            return self._held_rows([*specs, optimum], budgets), [optimum]
        except UsageError as error:
            rows = self._held_rows(specs, budgets)
            warnings.warn(f"the optimum is left out: {error}", KvsimWarning, stacklevel=5)
            return rows, []


def _kept(
    tuned: Tuned, stages: _Stages, folder: Path, name: str | None, protocol: Mapping[str, Any]
) -> Tuned:
    """Writes the recipe, the frame and the figure into the folder."""
    import dataclasses

    from ..command.csv_text import csv_text
    from ..files.partial import written_whole
    from ..recipe import write_recipe

    held = tuned.ranked[tuned.ranked["held_out_loss"].notna()]
    model = stages.model
    fields = {
        "name": name, "policy": tuned.policy, "budget": stages.budget,
        **{key: str(protocol[key]) for key in ("mode", "eviction_interval", "page")},
        "model": "; ".join(dict.fromkeys(trace.model for trace in stages.loop.traces)),
        "model_id": model and model.model_id,
        "objective": tuned.loss if model is None else f"{tuned.objective}, then {tuned.loss}",
        "searched_on": [text.text_id for text in stages.of_search],
        "held_out": [
            {"policy": row.policy, "loss": row.held_out_loss, "low": row.low, "high": row.high}
            for row in held.itertuples()
        ],
        "kvsim_version": metadata.version("kvsim"),
    }  # fmt: skip
    with written_whole(folder / RANKED) as partial:
        partial.write_text(csv_text(tuned.ranked), "utf-8")
    tuned.figure(folder / FIGURE)
    return dataclasses.replace(tuned, recipe=write_recipe(folder / RECIPE, fields))
