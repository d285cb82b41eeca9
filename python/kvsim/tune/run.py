"""kvsim.tune: which policy, with which parameters, loses least at a budget."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..recipe.file import checked_place
from . import settings
from .open_loop import OpenLoop
from .search import RECIPE, RESULTS, Announce, load_optuna
from .space import parse_space
from .texts import HeldOut, split_texts

if TYPE_CHECKING:
    from os import PathLike

    from .tuned import Tuned


def tune(
    source: Any,
    budget: str | float,
    *,
    space: str | Sequence[str] | None = None,
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

    Parameters
    ----------
    source : path, Trace, sequence of these, or transformers.PreTrainedModel
        A trace or a list of traces (a path ends in .h5): open loop alone. Or a model, as for
        kvsim.evaluate, with `texts`; a trace of the search texts is recorded.
    budget : str, int or float
        One, as for kvsim.sweep: "20%", 64, "64KiB".
    space : str or sequence of str, optional
        Entries separated by ";", or a list of them. A spec with `{a,b}`, one of these, and
        `{0..0.9}`, `{1..64}`, a number between the two, a whole one if both are; and entries that
        begin with "+" or "@", each of which a policy may have in addition. None: ten policies,
        +protect, and three rules for splits.
    objective : str, optional
        Of the open loop: "predicted_kl", "projected_error", "output_error_sq" or "attention_loss".
        None: the first that the traces can tell.
    texts : str, dict, path, or sequence of these, optional
        Of a model, as for kvsim.evaluate.
    held_out : sequence of str, str or float, optional
        Names of texts, or a share such as "30%" or 0.3, of the last ones. None: a third.
    trials : int, default 64
        Of the search, several of which may be of one spec; all of a space that has no more. Of a
        folder that has more of them, the first ones count.
    finalists : int, default 8
        Specs that are imposed on the model; of traces those measured on held-out texts.
    output : path, optional
        A folder for results.sqlite, search.log, recipe.yaml, ranked.csv, loss.png. The same call
        goes on there after an interruption and repeats nothing. Without it nothing is kept.
    mode : {"stream", "prefill"}, default "stream"
        See `kvsim.Options`.
    eviction_interval : int or "never", default 1
        See `kvsim.Options`.
    page : int, tokens, default 1
        See `kvsim.Options`.
    page_score : {"mean", "max", "min"}, default "mean"
        See `kvsim.Options`.
    prompt_length : int, tokens, optional
        Of all texts of a model.
    tokenizer : transformers tokenizer, optional
        Of the texts; None: the model's.
    figure_budgets : sequence of str, int or float, optional
        Further budgets of the figure; None: half of it and twice as much.
    name : str, optional
        A label of the recipe for tables and figures.
    seed : int, default 0
        As for kvsim.sweep, also of the search and of intervals: the same seed, the same result.
    progress : bool or callable, optional
        As for kvsim.sweep.

    Returns
    -------
    Tuned
        The spec that was found, and all that were measured.

    Raises
    ------
    UsageError
        For arguments that cannot be meant; else as kvsim.sweep and kvsim.evaluate.
    KvsimError
        Without Optuna; else as kvsim.sweep and kvsim.evaluate.
    DataError, RecordError, KeyboardInterrupt
        As kvsim.sweep and kvsim.evaluate.

    Notes
    -----
    Three stages. In open loop, `trials` specs are replayed on traces of the search texts, many at a
    time; Optuna's TPE sampler proposes them. With a model, the `finalists` best ones are then
    imposed on it by successive halving: half of them go on, to twice as many texts. The result is
    measured on held-out texts, with simple policies at their defaults and the optimum.

    Examples
    --------
    >>> tuned = kvsim.tune("trace.h5", "20%", space="h2o:recent={0..0.9};tova", output="tuned")
    >>> kvsim.sweep("trace.h5", f"tova;recipe:file={tuned.recipe}", "20%")
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
            checked_place(folder / RECIPE)
        return _tune(announce, folder, output is not None, **arguments)


def _tune(
    announce: Announce,
    folder: Path,
    is_kept: bool,
    *,
    source: Any,
    budget: str | float,
    space: str | Sequence[str] | None,
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
    for argument, value in (("prompt_length", prompt_length), ("tokenizer", tokenizer)):
        if not has_model and value is not None:
            raise UsageError(f"{argument}: traces hold their own; leave it out")
    budgets = settings.budgets_around(request, protocol["page"])
    if figure_budgets is not None:
        budgets = [request, *(settings.budget_text(each) for each in figure_budgets)]
    settings.check_budgets(budgets, protocol)
    settings.check_name(name)
    parsed = parse_space(
        settings.space_text(space, protocol["page"]),
        settings.refusal(has_model, protocol["page"]),
    )
    model = None
    if has_model:
        from .imposed import ImposedLoop

        output = folder / RESULTS
        model = ImposedLoop(source, texts, tokenizer, prompt_length, protocol, output, progress)
        of_search, held = split_texts(model.texts(), held_out)
        announce(f"recording {len(of_search)} texts to search on")
        traces = [model.recorded([text.name for text in of_search], folder, gradients=True)]
    loop = OpenLoop(traces, protocol, folder / RESULTS, progress)
    if not has_model:
        of_search, held = split_texts(loop.texts(), held_out)
    from .outputs import kept
    from .stages import Stages

    stages = Stages(
        loop, model, parsed, request, objective, of_search, held, seed, folder, announce
    )
    found = stages.in_open_loop(trials, protocol)
    reached = stages.imposed(found, finalists)
    tuned = stages.on_held_out(found, reached, finalists, list(dict.fromkeys(budgets)))
    return kept(tuned, stages, folder, name, protocol) if is_kept else tuned
