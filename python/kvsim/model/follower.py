"""Follows a running model: its sequences, its forward passes and its attention calls."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import RecordError
from .attention import Call, Result, intercepted
from .consistency import Consistency
from .decoder import require_decoder
from .shape import Shape, shape_of, sinks_of
from .shared_cache import SharedCaches
from .steps import Step, read_step


@dataclass
class Generation:
    """A running call of the model's `generate`."""

    prompt_columns: int  # tokens of its input, padding included
    has_begun: bool = False


@dataclass(frozen=True)
class Place:
    """Where a model is in its sequences, after a forward pass."""

    num_columns: int
    last_keys: dict[int, torch.Tensor]


class Follower(ABC):
    """What happens at the forward passes and attention calls of a model.

    Every forward pass with an empty cache begins new sequences, one per member of the batch.
    Refuses, with a RecordError, what no trace can express.
    """

    def __init__(self, model: torch.nn.Module, layers: set[int]) -> None:
        self._text_config = require_decoder(model)
        self._layers = layers  # those whose attention is followed
        self._generation: Generation | None = None
        self._consistency = Consistency()
        self._step: Step | None = None  # the forward pass that runs or that failed
        self._called: set[int] = set()  # the layers that attended in this forward pass
        self._num_columns = 0  # tokens so far, padding included
        self._batch_size = 0
        self._shapes: dict[int, Shape] = {}  # of the layers that were called
        self._caches = SharedCaches()
        self._sinks: dict[int, torch.Tensor] = {}  # learned logits [query heads] of the layers
        self._is_paused = False

    @abstractmethod
    def _end_sequences(self, failed: bool) -> None:
        """The sequences before end. `failed`: because a forward pass raised."""

    @abstractmethod
    def _begin_sequences(self, step: Step) -> None:
        """New sequences begin with this step."""

    @abstractmethod
    def _feed(self, step: Step) -> None:
        """A forward pass over the tokens of this step begins."""

    @abstractmethod
    def _attend(self, layer: int, call: Call, step: Step) -> Result:
        """The result of an attention call, for `_check_shape` and `_check_cache` to see."""

    def _end_step(self, step: Step, output: Any) -> None:  # noqa: B027  not every one needs it
        """The forward pass succeeded and returned `output`."""

    @contextmanager
    def following(self, model: torch.nn.Module) -> Iterator[None]:
        """Follows the model until the block ends."""
        with ExitStack() as stack:
            stack.enter_context(intercepted(model, self._intercept))
            stack.enter_context(_generation_followed(model, self))
            for hook in (
                model.register_forward_pre_hook(self._before_forward, with_kwargs=True),
                model.register_forward_hook(self._after_forward),
            ):
                stack.callback(hook.remove)
            yield

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Does not follow the forward passes that run in the block."""
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False

    def _place(self) -> Place:
        return Place(self._num_columns, self._consistency.last_keys)

    def _return_to(self, place: Place) -> None:
        """The next forward pass goes on from there, with a cache of then."""
        self._num_columns = place.num_columns
        self._consistency.return_to(place.last_keys)

    @contextmanager
    def generation(self, prompt_columns: int) -> Iterator[None]:
        """Surrounds a call of `generate` whose input has `prompt_columns` columns."""
        self._generation = Generation(prompt_columns)
        try:
            yield
        finally:
            self._generation = None

    def _in_prompt(self, step: Step, num_tokens: int, known_prompt: int | None) -> bool | None:
        """Whether the step's tokens, after `num_tokens` others, are read before generation.

        None: unknown. What `generate` reads comes first: a given continuation is neither
        generated nor in the prompt.
        """
        if self._generation is not None:
            return step.seen < self._generation.prompt_columns
        return None if known_prompt is None else num_tokens < known_prompt

    def _before_forward(
        self, model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if self._is_paused:
            return
        step = read_step(model, args, kwargs)
        if step.seen == 0:
            if self._generation is not None and self._generation.has_begun:
                raise RecordError(_why_again(self._num_columns, kwargs))
            self._end_sequences(failed=self._step is not None)
            self._step = step
            self._begin(step)
        elif self._step is not None:
            raise RecordError("the forward pass before this one failed; begin a new text")
        self._step = step
        if step.seen != self._num_columns or step.real.shape[0] != self._batch_size:
            raise RecordError(
                f"the cache holds {step.seen} tokens of {step.real.shape[0]} sequences that were "
                "not followed from their beginning; begin with an empty cache, and without "
                "candidates or beams"
            )
        self._num_columns = step.real.shape[1]
        self._called = set()
        self._caches.begin_step()
        self._feed(step)

    def _begin(self, step: Step) -> None:
        if self._generation is not None:
            self._generation.has_begun = True
        self._num_columns, self._batch_size = 0, step.real.shape[0]
        self._consistency.begin()
        self._begin_sequences(step)

    def _after_forward(self, model: torch.nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if self._is_paused:
            return
        if self._step is not None:
            self._consistency.require_same_past()
            self._end_step(self._step, output)
        self._step = None

    def _intercept(self, call: Call) -> Result:
        module = call.module
        if type(module.config) is not type(self._text_config):
            return call.attend()  # another part of the model, such as an image encoder
        layer = getattr(module, "layer_idx", None)
        if layer is None:
            raise RecordError(f"{type(module).__name__} does not say which layer it is")
        if layer not in self._layers:
            return call.attend()
        step = self._step
        if step is None:
            raise RecordError(
                "a part of the model was called alone; call the whole model, and without "
                "gradient checkpointing, which calls parts again"
            )
        if call.query.shape[2] < step.new and call.query.shape[0] == self._batch_size:
            raise RecordError(
                f"layer {layer} attends with {call.query.shape[2]} of {step.new} new tokens; where "
                "a model skips tokens whose logits are not asked for, give generate "
                "logits_to_keep=0"
            )
        if call.query.shape[2] != step.new or call.query.shape[0] != self._batch_size:
            raise RecordError(f"layer {layer} has cross-attention: queries are not the new tokens")
        if layer in self._called:
            raise RecordError(
                f"layer {layer} attends twice in a forward pass; a trace holds one attention per "
                "layer and token"
            )
        self._called.add(layer)
        self._caches.look(layer, call)
        return self._attend(layer, call, step)

    def _check_shape(self, layer: int, call: Call, output: torch.Tensor) -> None:
        """Raises RecordError for a call that computes what a trace cannot express."""
        shape = shape_of(layer, (call.query, call.key, call.value), output, call.options)
        self._shapes.setdefault(layer, shape).require_same(shape, layer)
        softcap = next(iter(self._shapes.values())).logit_softcap
        if shape.logit_softcap != softcap:
            raise RecordError(
                f"layer {layer} has logit_softcap {shape.logit_softcap}, an earlier one {softcap}: "
                "a trace has one for all; choose layers with --layers"
            )
        if layer not in self._sinks:
            sinks = sinks_of(layer, shape.num_query_heads, call.options)
            if sinks is not None:
                self._sinks[layer] = sinks

    def _check_cache(self, layer: int, call: Call, step: Step) -> None:
        """Raises RecordError for a mask that a trace cannot express.

        Of a cache that changed the forward pass says so when it ends.
        """
        self._consistency.check_mask(layer, call, step)
        cache = self._caches.cache_of(layer)
        if {layer, cache} & self._consistency.selecting and cache != layer:
            raise RecordError(
                f"layer {layer} reads the cache of layer {cache}, and one of them selects tokens; "
                "a trace expresses no shared cache of which layers see other tokens"
            )
        self._consistency.look_at_past(layer, call.key, step.new)


def _why_again(num_tokens: int, kwargs: dict[str, Any]) -> str:
    """Why a generation begins anew after so many tokens."""
    if not kwargs.get("use_cache", True):
        return "the model repeats its tokens; let it keep them: use_cache=True"
    return (
        f"after {num_tokens} tokens the model reads all of them again into a new cache, as Phi-3 "
        "does where a text outgrows its first length; generate no further, or generate without "
        "kvsim and let the model read the whole text in one forward pass"
    )


@contextmanager
def _generation_followed(model: torch.nn.Module, follower: Follower) -> Iterator[None]:
    """Tells the follower about each call of `generate`, whose input is the prompt."""
    generate = getattr(model, "generate", None)
    if generate is None:
        yield
        return
    own = vars(model).get("generate")  # set on this object, not on its class

    def generate_in_follower(inputs: torch.Tensor | None = None, *args: Any, **options: Any) -> Any:
        prompt = options.get("inputs_embeds")
        if prompt is None:
            prompt = options.get("input_ids") if inputs is None else inputs
        # Without an input, `generate` begins with a start token.
        with follower.generation(1 if prompt is None else prompt.shape[1]):
            return generate(inputs, *args, **options)

    model.generate = generate_in_follower
    try:
        yield
    finally:
        del model.generate
        if own is not None:
            model.generate = own
