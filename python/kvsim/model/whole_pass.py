"""Reads a whole text in one forward pass, for what cannot be seen while it is generated."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.utils.hooks import RemovableHandle

from .attention import Call, Intercept, Result, intercepted, layer_of

ROWS_AT_ONCE = 256  # of the prediction, to draw labels from

See = Callable[[int, torch.Tensor], None]  # gets a layer and what it computed


def ignore(layer: int, computed: torch.Tensor) -> None:
    """Sees nothing."""


def score_gradients(
    model: torch.nn.Module,
    ids: list[int],
    layers: Set[int],
    samples: int,
    seed: int,
    see_output: See = ignore,
    attend: Intercept = Call.attend,
) -> dict[int, torch.Tensor]:
    """The gradients of `sum_t log p(y_t | x_<=t)` with respect to the outputs of the heads.

    Of each of `layers` that attends, [samples, query heads, n, value_dim], float32 on the CPU. The
    labels y_t are drawn from the model's own prediction (`draw_labels`). Keys and values are
    detached, so the gradient at a step is that of this step's own prediction, and one backward pass
    of the sum gives all.

    `see_output` gets the heads' outputs [n, query heads, value_dim] of each layer, `attend`
    computes attention.

    One forward pass keeps its activations and the logits; a backward pass per sample follows. The
    weights get no gradients.
    """
    taps: dict[int, torch.Tensor] = {}

    def tapped(call: Call) -> Result:
        detached = replace(call, key=call.key.detach(), value=call.value.detach())
        output, weights = attend(detached)
        layer = layer_of(call, model)
        if layer not in layers:
            return output, weights
        see_output(layer, output[0].detach())
        # A zero whose gradient is that of the output.
        taps[layer] = torch.zeros_like(output, requires_grad=True)
        return output + taps[layer], weights

    with torch.inference_mode(False), torch.enable_grad(), _without_weights(model):
        with intercepted(model, tapped, within=True):
            tokens = torch.tensor([ids], device=model.device)
            logits = model(input_ids=tokens, use_cache=False).logits[0]
        if not taps:
            return {}
        prediction = torch.softmax(logits.detach().float(), -1)
        found: dict[int, list[torch.Tensor]] = {layer: [] for layer in sorted(taps)}
        for sample, labels in enumerate(draw_labels(prediction, ids, samples, seed)):
            is_last = sample + 1 == samples
            # Of log p(label) by the logits; the last one in the prediction's memory.
            slope = prediction.neg_() if is_last else -prediction
            slope[torch.arange(len(ids)), labels] += 1
            gradients = torch.autograd.grad(
                logits,
                [taps[layer] for layer in found],
                slope.to(logits.dtype),
                retain_graph=not is_last,
            )
            for layer, gradient in zip(found, gradients, strict=True):
                found[layer].append(gradient[0].transpose(0, 1).float().cpu())
    return {layer: torch.stack(found.pop(layer)) for layer in sorted(taps)}


def whole_pass(
    model: torch.nn.Module,
    ids: list[int],
    layers: Set[int],
    see_output: See = ignore,
    attend: Intercept = Call.attend,
) -> None:
    """The forward pass alone; `see_output` and `attend` as of score_gradients()."""

    def seen(call: Call) -> Result:
        output, weights = attend(call)
        layer = layer_of(call, model)
        if layer in layers:
            see_output(layer, output[0])
        return output, weights

    with torch.inference_mode(), intercepted(model, seen, within=True):
        model(input_ids=torch.tensor([ids], device=model.device), use_cache=False)


def draw_labels(
    prediction: torch.Tensor, ids: list[int], samples: int, seed: int
) -> Iterator[torch.Tensor]:
    """`samples` times a token per position [n], drawn from the prediction [n, vocabulary].

    They are the seed's and the text's: other texts and later samples do not change them.
    """
    text = hashlib.sha256(f"{seed} ".encode() + np.asarray(ids, "<i4").tobytes()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(text[:8], "little") >> 1)
    for _ in range(samples):
        rows = [
            torch.multinomial(part.cpu(), 1, generator=generator)[:, 0]
            for part in prediction.split(ROWS_AT_ONCE)
        ]
        yield torch.cat(rows).to(prediction.device)


@contextmanager
def inputs_seen(layers: Mapping[int, torch.nn.Module], see: See) -> Iterator[None]:
    """Shows the input [n, hidden] of each of these modules, until the block ends."""

    def hook_of(layer: int) -> Callable[..., None]:
        def look(_: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            see(layer, _as_rows(args[0] if args else kwargs["hidden_states"]))

        return look

    with _hooked(
        module.register_forward_pre_hook(hook_of(layer), with_kwargs=True)
        for layer, module in layers.items()
    ):
        yield


@contextmanager
def outputs_seen(layers: Mapping[int, torch.nn.Module], see: See) -> Iterator[None]:
    """Shows the output [n, width] of each of these modules, until the block ends."""

    def hook_of(layer: int) -> Callable[..., None]:
        return lambda _module, _args, output: see(layer, _as_rows(output))

    with _hooked(module.register_forward_hook(hook_of(layer)) for layer, module in layers.items()):
        yield


def _as_rows(hidden: torch.Tensor) -> torch.Tensor:
    return hidden.detach().reshape(-1, hidden.shape[-1])


@contextmanager
def _hooked(registered: Iterable[RemovableHandle]) -> Iterator[None]:
    hooks = list(registered)
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _without_weights(model: torch.nn.Module) -> Iterator[None]:
    """Turns off the gradients of parameters until the block ends, which saves activations."""
    asking = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in asking:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in asking:
            parameter.requires_grad_(True)
