"""The stages of a search: open loop, finalists in the model, held-out texts."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _engine
from ..errors import DataError, KvsimWarning, UsageError
from . import settings
from .open_loop import OpenLoop, objective_of
from .search import Announce, search, storage_in
from .space import Space
from .texts import Text
from .tuned import Tuned

if TYPE_CHECKING:
    import pandas as pd

    from ..trace import Trace
    from .imposed import ImposedLoop

_DEFAULTS_OF_CURVES = 3  # in a model, each a forward pass per text and budget


class Stages:
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
        self._folder, self._storage = folder, storage_in(folder)
        self.defaults = settings.canonical(settings.DEFAULTS)
        # Held-out texts of traces are measured by the objective, too.
        held_names = [text.name for text in held] if model is None else []
        rows = loop.rows(self.defaults, [budget], self._searched + held_names)
        self.objective = objective_of(rows, objective)
        of_search_rows = rows[rows["sequence"].isin(self._searched)]
        self._of_defaults = dict(of_search_rows.groupby("policy")[self.objective].mean())
        self._study = ""
        self._is_probed = False
        self._held_trace: Trace | None = None

    def in_open_loop(self, trials: int, protocol: Mapping[str, Any]) -> dict[str, float]:
        """The mean loss of each spec that was tried, over the texts of the search."""
        # Canonical texts have the digests of files, which may change under their names.
        codes = [
            (flags["text"], flags["policy_code"])
            for spec in self.space.samples()
            for flags in _engine.specs([spec], "uniform")
        ]
        texts = {key: str(value) for key, value in protocol.items()}
        of = [
            self.space.text, codes, self.budget, self.objective, texts,
            [text.text_id for text in self.of_search], self.loop.trace_ids(),
        ]  # fmt: skip
        digest = hashlib.sha256(json.dumps(of, default=str).encode()).hexdigest()
        self._study = digest[:12]
        return search(
            self.space, self._losses, trials, self.seed, self._storage,
            f"open-loop-{self._study}", self.announce,
        )  # fmt: skip

    def _losses(self, specs: Sequence[str]) -> dict[str, float]:
        """The mean loss of each spec; those that the engine refuses are left out, with a note.

        Raises what is not about a spec, as DataError for a trace that is damaged.
        """
        try:
            return self._means(specs)
        except (UsageError, DataError):
            self._probe()
        # The error is about one of them; alone, each says so itself.
        found: dict[str, float] = {}
        for spec in specs:
            try:
                found |= self._means([spec])
            except (UsageError, DataError) as error:
                note = f"a trial has no result: {error}"
                warnings.warn(note, KvsimWarning, stacklevel=2)
        return found

    def _probe(self) -> None:
        """Raises the error that every spec has, so that it is not taken for one of a spec."""
        if not self._is_probed:
            self.loop.probe(self.defaults[0], self.budget, self._searched)
        self._is_probed = True

    def _means(self, specs: Sequence[str]) -> dict[str, float]:
        from .ranking import mean_losses

        if not specs:
            return {}
        rows = self.loop.rows(specs, [self.budget], self._searched)
        return mean_losses(rows, self.objective, specs)

    def imposed(self, found: Mapping[str, float], finalists: int) -> dict[str, tuple[int, float]]:
        """Per finalist on how many texts it was imposed last, and its KL there; traces: none."""
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

        candidates, defaults = ranking.best_of(found, finalists), self.defaults
        drawn = len(defaults) if self.model is None else _DEFAULTS_OF_CURVES
        loss = self.objective
        if reached:
            last = max(texts for texts, _ in reached.values())
            final = {spec: kl for spec, (texts, kl) in reached.items() if texts == last}
            candidates, loss = ranking.best_of(final, len(final)), KL
        winner = candidates[0]
        roles = dict.fromkeys(found, ranking.FOUND) | dict.fromkeys(defaults, ranking.DEFAULT)
        roles[winner] = ranking.FOUND
        asked = list(dict.fromkeys([*candidates, *defaults]))
        self.announce(f"held-out texts: {len(asked)} policies on {len(self.held)}")
        rows, optimum = self._with_optimum(asked, loss)
        roles |= dict.fromkeys(optimum, ranking.OPTIMUM)
        held = ranking.HeldOut(rows, loss, self.seed)
        means = held.means()
        best_defaults = ranking.best_of({spec: means[spec] for spec in defaults}, drawn)
        table = ranking.ranked(roles, {**self._of_defaults, **found}, reached,
                               held.frame(best_defaults[0]), winner)  # fmt: skip
        shown = list(dict.fromkeys([winner, *best_defaults, *optimum]))
        points = self._points(rows[rows["policy"].isin(shown)], shown, budgets, loss, roles)
        return Tuned(
            winner, None, loss, self.objective, table, points, tuple(self._searched),
            tuple(text.name for text in self.held), len(found),
        )  # fmt: skip

    def _points(
        self, rows: pd.DataFrame, shown: Sequence[str], budgets: Sequence[str], loss: str,
        roles: Mapping[str, str],
    ) -> pd.DataFrame:  # fmt: skip
        """Of these policies, whose rows at the budget of the search are there, at all budgets."""
        import pandas as pd

        from .ranking import curve_points

        others = [budget for budget in budgets if budget != self.budget]
        if others:
            rows = pd.concat([rows, self._held_rows(shown, others)], ignore_index=True)
        return curve_points(rows, loss, roles, self.seed)

    def _held_rows(self, specs: Sequence[str], budgets: Sequence[str]) -> pd.DataFrame:
        names = [text.name for text in self.held]
        if self.model is None:
            return self.loop.rows(specs, budgets, names)
        if self._held_trace is None:
            self.announce(f"recording {len(names)} held-out texts")
            self._held_trace = self.model.recorded(names, self._folder)
        return self.model.rows(specs, budgets, names, self._held_trace)

    def _with_optimum(self, specs: Sequence[str], loss: str) -> tuple[pd.DataFrame, list[str]]:
        """Also measures the optimum, unless the protocol rules it out; with its spec."""
        optimum = settings.optimum(loss)
        try:
            return self._held_rows([*specs, optimum], [self.budget]), [optimum]
        except UsageError as error:
            rows = self._held_rows(specs, [self.budget])
            warnings.warn(f"the optimum is left out: {error}", KvsimWarning, stacklevel=5)
            return rows, []
