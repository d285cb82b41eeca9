"""Finds the activation functions of a model's MLPs."""

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch

from ..errors import RecordError
from .probing import PROBE_TOKENS, attending_modules, layer_around, read_probe, rows_of

FIX = "leave mlp_activation out"


def activation_functions(
    model: torch.nn.Module, layers: Iterable[int]
) -> dict[int, torch.nn.Module]:
    """The module that is the nonlinearity of each layer's MLP, of those layers that attend.

    Its output is one vector [width] per token: of a plain MLP what the output matrix takes, of a
    gated one, act(gate) * up, act(gate). H2O's appendix C.10 counts how often neurons of OPT are
    active, whose ReLU gives 0 for one that is not; a gated neuron gives nothing where its gate
    does, and the sign of the product says nothing.

    It is seen in a short forward pass, so the names of modules do not matter: outside attention,
    a module that works on each number alone and takes what a linear module gives, or half of that.

    Raises RecordError for a layer in which there is none, and for a mixture of experts, where a
    token goes through some neurons only.
    """
    attending = attending_modules(model)
    found: dict[int, torch.nn.Module] = {}
    with ExitStack() as stack:
        probes = {}
        for layer in sorted(attending.keys() & set(layers)):
            around = layer_around(attending[layer], model, FIX)
            probes[layer] = _Probe(layer, around, attending[layer])
            stack.callback(probes[layer].close)
        read_probe(model, lambda call: call.attend())
        for layer, probe in probes.items():
            probe.close()
            found[layer] = probe.activation()
    return found


@dataclass
class _Probe:
    """One layer during the short forward pass."""

    index: int
    layer: torch.nn.Module
    attention: torch.nn.Module
    linear: list[torch.Tensor] = field(default_factory=list)  # what linear modules gave
    taken: dict[torch.nn.Module, list[torch.Tensor]] = field(default_factory=dict)  # by each call

    def __post_init__(self) -> None:
        inside = set(self.attention.modules())
        self.outside = [module for module in self.layer.modules() if module not in inside]
        self._hooks = [
            module.register_forward_hook(self._see, with_kwargs=True)
            for module in self.outside
            if next(module.children(), None) is None
        ]

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()

    def _see(self, module: torch.nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        taken, rows = rows_of((*args, *kwargs.values())), rows_of(output)
        if taken is None or rows is None or len(taken) != PROBE_TOKENS:
            return
        if taken.shape == rows.shape:
            self.taken.setdefault(module, []).append(taken)
        weight = getattr(module, "weight", None)
        if isinstance(weight, torch.Tensor) and weight.dim() == 2:
            self.linear.append(rows)

    def activation(self) -> torch.nn.Module:
        found = [
            module
            for module, (taken, *more) in self.taken.items()
            if not more and self._is_of_linear(taken) and _is_elementwise(module, taken)
        ]
        kinds = {type(module) for module in found}
        alike = [module for module in self.outside if type(module) in kinds]
        if len(alike) > 1 or any(_has_experts(module) for module in self.outside):
            raise RecordError(
                f"layer {self.index}: expected one MLP that every token goes through, found a "
                f"mixture of experts in {type(self.layer).__name__}; {FIX}"
            )
        if not found:
            raise RecordError(
                f"layer {self.index}: expected a module that takes what a linear module gives, "
                f"once per token, and is its activation function, found none in "
                f"{type(self.layer).__name__}; {FIX}"
            )
        return found[0]

    def _is_of_linear(self, taken: torch.Tensor) -> bool:
        """Whether it is what a linear module gave, or a half: some compute gate and up at once."""
        width = taken.shape[1]
        return any(
            torch.equal(taken, part)
            for rows in self.linear
            if rows.shape[1] in (width, 2 * width)
            for part in (rows[:, :width], rows[:, -width:])
        )


def _has_experts(module: torch.nn.Module) -> bool:
    """Whether it holds a stack of matrices, one per expert."""
    convolves = isinstance(module, (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d))
    return not convolves and any(each.dim() > 2 for each in module.parameters(recurse=False))


def _is_elementwise(module: torch.nn.Module, taken: torch.Tensor) -> bool:
    """Whether it changes each number, and by that number alone: a norm looks at the others."""
    tried = torch.cat((taken, -taken))  # a ReLU changes what is below 0
    half = tried.shape[1] // 2
    other = tried.clone()
    other[:, half:] = 0
    with torch.inference_mode():
        result, of_other = module(tried), module(other)
    return torch.equal(result[:, :half], of_other[:, :half]) and not torch.equal(result, tried)
