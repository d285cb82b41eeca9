"""What a call asks of the closed loop: a model, texts, policies and budgets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from .. import _engine
from ..errors import UsageError
from ..model.decoder import model_name, require_decoder
from ..model.loading import load_config, load_model, load_tokenizer
from ..model.output_projection import has_projections, required_outputs
from ..policy import registered_here
from ..record.also import ACTIVATION, GRADIENT, PROJECTION, Also
from ..trace import Trace
from ..verbs.options import listed
from . import selected_pages
from .choice import Refuse, refused_by_imposed, refused_policies
from .evicting_model.geometry import Geometry, geometry_of
from .loops import How, Job, Plan
from .recorded import RECORDED_BYTES, as_in_trace, checked_logits, recorded
from .replayed import plans_of
from .texts import input_texts, jobs_of


@dataclass(frozen=True)
class Asked:
    """A model with the texts that it reads, and what is to evict in it."""

    model: Any
    tokenizer: Any
    jobs: list[Job]
    trace: Trace | None  # of all texts; None: one is recorded of each
    specs: list[str]
    amounts: list[str]  # the budgets
    refused: set[str]  # specs of lists that the loop does not run
    selectors: list[dict[str, object]]  # what the engine says of each
    how: How
    also: Also  # what the traces that are recorded hold in addition to attention

    def sweep_of(self, job: Job) -> tuple[list[str], list[str], dict[str, object]]:
        """Policies, budgets and options of the replays of a text."""
        return self.specs, self.amounts, {**self.how.options(), "sequences": [job.name]}

    def plans(self, job: Job, is_recorded: bool = True) -> list[Plan]:
        """The configurations of a text. `is_recorded`: they are replayed on a trace, whose numbers
        a budget in bytes counts; else it counts those of the model's own cache."""
        has_sizes = any("B" in amount for amount in self.amounts)
        vectors = self.vectors(job, is_recorded) if has_sizes else []
        evicting = plans_of(self.specs, self.refused, self.amounts, job, self.how, vectors)
        return evicting + selected_pages.plans_of(self.selectors, job, self.how)

    def vectors(self, job: Job, is_recorded: bool = True) -> list[tuple[int, int, int, int]]:
        """Of each layer with a cache: the dimensions of keys and values, and the bytes of their
        numbers, as in the trace or, without one, in the model."""
        if self.trace is not None:
            return _engine.vectors_of_layers(self.trace._opened, job.name)
        size = self._geometry.element_bytes
        if is_recorded and size != RECORDED_BYTES:
            raise UsageError(
                f"budgets: a number takes {size} bytes in this model and {RECORDED_BYTES} in a "
                "trace that is recorded here, so that a size is another budget; record one with "
                "dtype float16 and give it as trace"
            )
        shapes = [self._geometry.shapes[layer] for layer in self._geometry.layers]
        return [(shape.head_dim, shape.value_dim, size, size) for shape in shapes]

    @cached_property
    def _geometry(self) -> Geometry:
        return geometry_of(self.model)

    def in_words(self, loop: str, shard: str, per_step: bool) -> str:
        """The call that asks for it."""
        words = {"policies": self.specs, "budgets": self.amounts, "loop": loop}
        words |= self.how.options()
        if self.selectors:
            words["select"] = [flags["text"] for flags in self.selectors]
        if shard:
            words["shard"] = shard
        if per_step:
            words["per_step"] = True
        arguments = ", ".join(f"{name}={value!r}" for name, value in words.items())
        names = [job.name for job in self.jobs]
        return f"kvsim.evaluate({model_name(self.model)!r}, {names}, {arguments})"

    @contextmanager
    def shown(self, job: Job, loop: str) -> Iterator[None]:
        """Shows the text to classes of policies, which may run the model on it, while it is
        replayed for the imposed loop."""
        names = {str(flags["name"]) for flags in _engine.specs(self.specs, self.how.allocate)}
        classes = [cls for cls in map(registered_here, sorted(names)) if cls is not None]
        if loop != "imposed":
            classes = []
        try:
            for cls in classes:
                cls.read_text(self.model, job.ids, job.prompt_length)
            yield
        finally:
            for cls in classes:
                cls.read_text(self.model, job.ids[:0], 0)

    @contextmanager
    def trace_of(self, job: Job) -> Iterator[tuple[Trace, Callable[[], torch.Tensor]]]:
        """The trace of a text, and what gives its logits with the full cache."""
        if self.trace is not None:
            yield self.trace, lambda: checked_logits(self.model, job, self.trace)
            return
        with recorded(self.model, job, self.tokenizer, self.also) as (found, logits):
            yield found, lambda: logits


def prepare(
    model: Any,
    texts: object,
    policies: object,
    budgets: object,
    loop: str,
    how: How,
    *,
    tokenizer: Any,
    names: Sequence[str] | None,
    prompt_length: int | None,
    trace: str | Path | Trace | None,
    also: str | Sequence[str] | None = None,
    gradient_samples: int = 1,
    select: str | type | Sequence[str | type] | None = None,
) -> Asked:
    """Loads and checks what was asked for. Raises what kvsim.evaluate raises."""
    specs, amounts = listed(policies), listed(budgets)
    selectors = selected_pages.selectors(select, loop, how)
    if any(specs) != any(amounts) or not (any(specs) or selectors):
        raise UsageError(
            "expected at least one policy and one budget, or a selector of pages; found "
            f"policies {specs}, budgets {amounts} and {len(selectors)} selectors"
        )
    refused = refused_policies(specs, how.allocate, loop, _refusals(loop))
    inputs = input_texts(texts)
    has_text = any(isinstance(text.text, str) for text in inputs)
    model, tokenizer = loaded(model, tokenizer, has_text)
    jobs = jobs_of(inputs, tokenizer, names, prompt_length)
    require_room(model, jobs)
    if trace is not None and (also is not None or gradient_samples != 1):
        raise UsageError(
            "also and gradient_samples: a trace is given, and holds what it holds; leave them out"
        )
    recorded_too = Also()
    if trace is None:
        recorded_too = _also(model, specs, how.allocate, also, gradient_samples)
    else:
        trace = trace if isinstance(trace, Trace) else Trace(trace)
        prompted = prompt_length is not None or any(text.prompt_length for text in inputs)
        jobs = as_in_trace(trace, jobs, prompted)
    return Asked(
        model, tokenizer, jobs, trace, specs, amounts, refused, selectors, how, recorded_too
    )


def _also(
    model: Any,
    specs: list[str],
    allocate: str,
    also: str | Sequence[str] | None,
    gradient_samples: int,
) -> Also:
    """What was asked for, and what the policies need.

    By default also the output projections, where the model has them: they cost little, and tables
    and the report rank by the projected error.
    """
    needs: dict[str, str] = {}  # what is needed, by which policy
    for spec in _engine.specs(specs, allocate):
        needs |= dict.fromkeys(spec["needs"], spec["text"])
    if PROJECTION in needs:
        required_outputs(model, needs[PROJECTION])
    asked = Also.of(also or ()).parts
    if ACTIVATION in asked:
        raise UsageError(
            f"also: {ACTIVATION} is for analyses of a trace, and the one recorded here is removed; "
            "record one with kvsim.recording, and leave it out here"
        )
    parts = asked | needs.keys() & {PROJECTION, GRADIENT}
    if also is None and has_projections(model):
        parts |= {PROJECTION}
    return Also.of(parts, gradient_samples)


def loaded(model: Any, tokenizer: Any, needed: bool) -> tuple[Any, Any]:
    """The model and the tokenizer of its texts. `needed`: some are no token ids."""
    if isinstance(model, (str, Path)):
        name = str(model)
        load_config(name)
        model = load_model(name, "float32", torch.device("cpu"))
    else:
        require_decoder(model)
        name = getattr(model.config, "_name_or_path", "")
    if model.training:
        raise UsageError("model: it is being trained; call model.eval() first")
    if tokenizer is None and needed:
        if not name:
            raise UsageError("tokenizer: expected one, since there are texts that are no token ids")
        tokenizer = load_tokenizer(name)
    return model, tokenizer


def require_room(model: Any, jobs: list[Job]) -> None:
    """Raises UsageError for a text that the model cannot read."""
    config = model.config.get_text_config()
    room = getattr(config, "max_position_embeddings", None)
    for job in jobs:
        if room and len(job.ids) > room:
            raise UsageError(
                f"{job.source}: {len(job.ids)} tokens are more than the model's {room} positions; "
                "use a shorter text"
            )
        if (largest := int(job.ids.max())) >= config.vocab_size:
            raise UsageError(
                f"{job.source}: expected token ids below {config.vocab_size}, found {largest}"
            )


def _refusals(loop: str) -> Refuse:
    if loop == "imposed":
        return refused_by_imposed
    from .adaptive import refused

    return refused
