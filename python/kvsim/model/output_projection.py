"""Finds what a model multiplies the outputs of its attention heads by, before it adds them up."""

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch

from ..errors import RecordError
from .attention import Call, Result, layer_of
from .probing import attending_modules, is_vectors, layer_around, read_probe, rows_of

FIX = "leave output_projection and residual out"

# Relative to what is added, and to the sum of both, which is rounded to its own type.
TOLERANCE = 1e-3
ROUNDING_UNITS = 2
NEARLY_ONE = 1e-2  # multipliers of models are much smaller than 1, or 1

# The most rounding, relative to what is added, at which a norm in between still shows.
MOST_ROUNDING = 0.25


@dataclass(frozen=True)
class LayerOutput:
    """How the attention of a layer enters the residual stream."""

    layer: torch.nn.Module  # its input is the residual stream that attention is added to
    projection: torch.Tensor  # W_O [query heads * value_dim, hidden], times a multiplier if any


def layer_outputs(model: torch.nn.Module, layers: Iterable[int]) -> dict[int, LayerOutput]:
    """How the attention of these layers enters the residual stream, of those that attend.

    It is seen in a short forward pass, so the names of modules do not matter: W_O belongs to the
    module that takes the heads' outputs as they are, and some later module has to take the layer's
    input plus a multiple of what comes out. A bias is no part of W_O: it does not change
    differences of outputs.

    Raises RecordError for a model that treats them otherwise (some normalise what attention
    returns before they add it), or whose weights are quantised.
    """
    attending = attending_modules(model)
    found: dict[int, LayerOutput] = {}
    with ExitStack() as stack:
        probes = {}
        for layer in attending.keys() & set(layers):
            probes[layer] = _Probe(layer, layer_around(attending[layer], model, FIX))
            stack.callback(probes[layer].close)

        def look(call: Call) -> Result:
            result = call.attend()
            layer = layer_of(call, model)
            if layer in probes:
                probes[layer].heads = result[0][0].flatten(1)
            return result

        read_probe(model, look)
        for layer, probe in probes.items():
            found[layer] = LayerOutput(probe.module, probe.projection())
    return found


@dataclass
class _Seen:
    """The input and the output of a module inside a layer."""

    module: torch.nn.Module
    input: torch.Tensor | None  # [tokens, width]
    output: torch.Tensor | None


@dataclass
class _Probe:
    """One layer during the short forward pass."""

    index: int
    module: torch.nn.Module
    heads: torch.Tensor | None = None  # [tokens, query heads * value_dim]
    seen: list[_Seen] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._hooks = [
            module.register_forward_hook(self._see, with_kwargs=True)
            for module in self.module.modules()
        ]

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()

    def _see(self, module: torch.nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        hidden = next((x for x in (*args, *kwargs.values()) if is_vectors(x)), None)
        self.seen.append(_Seen(module, rows_of(hidden), rows_of(output)))

    def projection(self) -> torch.Tensor:
        layer = self.seen[-1]  # a module ends after all that are in it
        weight, added = self._output_weight()
        multiplier = self._multiplier(layer.input, added, layer.output)
        return weight if multiplier == 1 else weight * multiplier

    def _output_weight(self) -> tuple[torch.Tensor, torch.Tensor]:
        """W_O [query heads * value_dim, hidden], and what comes out of its module."""
        quantised = None
        for seen in self.seen:
            weight = getattr(seen.module, "weight", None)
            takes_heads = (
                seen.input is not None
                and seen.input.shape == self.heads.shape
                and torch.equal(seen.input, self.heads)
            )
            if not takes_heads or seen.output is None or not isinstance(weight, torch.Tensor):
                continue
            if not weight.is_floating_point():
                quantised = f"{type(seen.module).__name__} of {weight.dtype}"
            if not weight.is_floating_point() or weight.dim() != 2:
                continue
            bias = getattr(seen.module, "bias", None)
            for matrix in (weight.detach().T, weight.detach()):
                if matrix.shape != (self.heads.shape[1], seen.output.shape[1]):
                    continue
                product = self.heads.double() @ matrix.double()
                if bias is not None:
                    product = product + bias.detach().double()
                if _deviation(product, seen.output) <= _allowed(seen.output, seen.output):
                    return matrix, seen.output
        if quantised is not None:
            raise RecordError(
                f"layer {self.index}: expected an output projection of floating-point weights, "
                f"found a quantised {quantised}; load the model unquantised, or {FIX}"
            )
        raise RecordError(
            f"layer {self.index}: expected a linear module that takes the outputs of the heads as "
            f"they are, found none in {type(self.module).__name__}; {FIX}"
        )

    def _multiplier(
        self, residual: torch.Tensor | None, added: torch.Tensor, output: torch.Tensor | None
    ) -> float:
        """m where the layer goes on with `residual + m * added`."""
        for total in self._totals(output):
            if residual is None or total.shape != residual.shape or total.shape != added.shape:
                continue
            difference = total.double() - residual.double()
            direction = added.double()
            multiplier = float((difference * direction).sum() / direction.square().sum())
            error = _deviation(difference, multiplier * direction)
            allowed = _allowed(multiplier * direction, total)
            if multiplier <= 0 or error > allowed:
                continue
            length = float(torch.linalg.norm(direction))
            if allowed > MOST_ROUNDING * multiplier * length:
                raise RecordError(
                    f"layer {self.index}: expected a sum of residual stream and attention that "
                    f"shows the attention's part, found one rounded to {total.dtype}; load the "
                    f"model in float32, or {FIX}"
                )
            unsure = max(NEARLY_ONE * length, allowed)
            return 1.0 if abs(multiplier - 1) * length <= unsure else multiplier
        raise RecordError(
            f"layer {self.index}: expected the projected attention to be added to the input of "
            f"{type(self.module).__name__}, found something between (a norm?); {FIX}"
        )

    def _totals(self, output: torch.Tensor | None) -> Iterable[torch.Tensor]:
        """What may be the sum: the input of a module, or the layer's output without its MLP."""
        yield from (seen.input for seen in self.seen if seen.input is not None)
        if output is None:
            return
        yield output
        for seen in self.seen:
            if seen.output is not None and seen.output.shape == output.shape:
                yield output.double() - seen.output.double()


def has_projections(model: torch.nn.Module) -> bool:
    """Whether `layer_outputs` finds them in all layers."""
    try:
        layer_outputs(model, range(model.config.get_text_config().num_hidden_layers))
    except RecordError:
        return False
    return True


def required_outputs(model: torch.nn.Module, policy: str) -> dict[int, LayerOutput]:
    """Those of all layers, which this policy needs. Raises RecordError that names it."""
    try:
        return layer_outputs(model, range(model.config.get_text_config().num_hidden_layers))
    except RecordError as error:
        reason = str(error).replace(FIX, "leave the policy out")
        raise RecordError(f"{policy} needs the output projection: {reason}") from error


def _deviation(one: torch.Tensor, other: torch.Tensor) -> float:
    return float(torch.linalg.norm(one.double() - other.double()))


def _allowed(part: torch.Tensor, total: torch.Tensor) -> float:
    # A sum that was computed from the layer's output in double precision is no rounder than that.
    kind = total.dtype if total.dtype != torch.float64 else torch.float32
    rounding = ROUNDING_UNITS * torch.finfo(kind).eps * float(torch.linalg.norm(total.double()))
    return TOLERANCE * float(torch.linalg.norm(part.double())) + rounding
