"""Finds the rotary embedding of a model by comparing keys before and after its rotation."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

FUNCTION = "apply_rotary_pos_emb"
LARGEST_POSITION = 31  # large enough to tell rotations apart, small enough for exact angles
TOLERANCE = 2e-2  # relative; above the error of bfloat16, below the 0.1 of a wrong rotation


@dataclass(frozen=True)
class Rope:
    """Rotates the first dimensions by position * inv_freq, then multiplies by the factor."""

    inv_freq: tuple[float, ...]  # [rotary_dim / 2]
    style: str  # half: pairs (i, i + rotary_dim / 2); interleaved: pairs (2 i, 2 i + 1)
    attention_factor: float

    def unrotate(self, keys: torch.Tensor, position: int) -> torch.Tensor:
        """Keys [..., dim] at `position` as they were before the rotation."""
        half = len(self.inv_freq)
        angle = position * torch.tensor(self.inv_freq, dtype=torch.float64)
        cos, sin = angle.cos(), angle.sin()
        result = keys.double().clone()
        if self.style == "half":
            parts = slice(0, half), slice(half, 2 * half)
        else:
            parts = slice(0, 2 * half, 2), slice(1, 2 * half, 2)
        first, second = (result[..., part] / self.attention_factor for part in parts)
        result[..., parts[0]] = first * cos + second * sin
        result[..., parts[1]] = second * cos - first * sin
        return result


NOT_ROTATED = Rope((0.0,), "half", 1.0)

Ropes = dict[int, Rope | None]  # by layer; None: unknown


class RopeWitness:
    """Compares keys before and after the model's own rotation with each candidate rotation.

    Models rotate in a module-level function of one common name. Until `close`, a wrapper replaces
    this function and keeps its last keys. The rotation of a layer counts as known only if the
    layer then attends to exactly the rotated keys: some change them afterwards. A layer that does
    not call the function does not rotate, if others of its class do so there.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._of_text: Ropes = {}  # of the texts being read
        self._rotating: set[type] = set()  # classes of layers whose rotation is known
        self._without: dict[int, type] = {}  # the classes of layers that did not call the function
        self._was_called = False  # since the last layer was looked at
        self._last: tuple[torch.Tensor, torch.Tensor] | None = None
        self._replaced: list[tuple[Any, Callable[..., Any]]] = []
        for name in {type(module).__module__ for module in model.modules()}:
            source = sys.modules.get(name)
            function = getattr(source, FUNCTION, None)
            if function is not None:
                self._replaced.append((source, function))
                setattr(source, FUNCTION, self._watched(function))

    @property
    def rotates(self) -> bool:
        """Whether the model has a rotary embedding."""
        return bool(rotations_of(self._model))

    def _watched(self, rotate: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            rotated = rotate(*args, **kwargs)
            self._was_called = True
            if isinstance(rotated, tuple) and len(rotated) == 2 and len(args) > 1:
                self._last = args[1].detach(), rotated[1].detach()
            elif isinstance(rotated, torch.Tensor) and args:  # one after the other, keys last
                self._last = args[0].detach(), rotated.detach()
            return rotated

        return watched

    def look(
        self,
        layer: int,
        module: torch.nn.Module,
        keys: torch.Tensor,
        real_new: torch.Tensor,
        first: list[int],
    ) -> None:
        """Finds the rotation of a layer, once per text, from new keys [batch, heads, new, dim].

        `first` is the position of each sequence's first new real token.
        """
        last, was_called = self._last, self._was_called
        self.forget()
        if layer in self._of_text:
            return
        place = _place(real_new, first)
        if place is None:
            return  # the rotation leaves position 0 unchanged: wait for another token
        sequence, row, position = place
        self._of_text[layer] = None
        if not was_called:
            self._without[layer] = type(module)
        if last is None:
            return
        before, after = last
        if after.shape[1:3] != keys.shape[1:3]:
            before, after = before.transpose(1, 2), after.transpose(1, 2)
        if after.shape != (*keys.shape[:3], after.shape[3]) or before.shape != after.shape:
            return
        if not torch.equal(after.to(keys.dtype), keys[..., : after.shape[3]]):
            return
        one_before = before[sequence, :, row].cpu().double()
        one_after = after[sequence, :, row].cpu()
        length = one_before.norm()
        errors = {
            rope: float((rope.unrotate(one_after, position) - one_before).norm() / length)
            for rope in rotations_of(self._model)
            if 2 * len(rope.inv_freq) <= after.shape[3]
        }
        best = min(errors, key=errors.__getitem__, default=None)
        if best is not None and errors[best] < TOLERANCE:
            self._of_text[layer] = best
            self._rotating.add(type(module))

    def forget(self) -> None:
        """Releases the last keys."""
        self._last, self._was_called = None, False

    def end_texts(self) -> Ropes:
        """The rotations of those that were read, which are whole.

        One that changed within them is unknown. A text of a single token shows none.
        """
        unchanged = rotations_of(self._model)
        found: Ropes = {
            layer: rope if rope in unchanged else None for layer, rope in self._of_text.items()
        }
        for layer, kind in self._without.items():
            if layer in found and kind in self._rotating:
                found[layer] = NOT_ROTATED
        self.leave_out_texts()
        return found

    def leave_out_texts(self) -> None:
        """Those that were read do not count."""
        self._of_text, self._without = {}, {}
        self.forget()

    def close(self) -> None:
        """Restores the model's own functions."""
        for source, function in self._replaced:
            setattr(source, FUNCTION, function)
        self._replaced.clear()
        self.forget()


def shared_rope(ropes: Iterable[Ropes]) -> Rope | None:
    """The rotation that all layers share, if it is known."""
    found = {rope for of_text in ropes for rope in of_text.values()}
    return found.pop() if len(found) == 1 else None


def _place(real_new: torch.Tensor, first: list[int]) -> tuple[int, int, int] | None:
    """Sequence, row and position of one new token at position 1 or later."""
    for sequence, start in enumerate(first):
        rows = real_new[sequence].nonzero().flatten().tolist()
        index = min(len(rows) - 1, max(0, LARGEST_POSITION - start))
        if rows and start + index > 0:
            return sequence, rows[index], start + index
    return None


def rotates_by_length(model: torch.nn.Module) -> bool:
    """Whether the frequencies depend on how long a text is (LongRoPE, dynamic NTK)."""
    kinds = {kind for module in model.modules() for kind in _kinds_of(module)}
    return not kinds.isdisjoint(("longrope", "dynamic"))


def _kinds_of(module: torch.nn.Module) -> list[str]:
    kind = getattr(module, "rope_type", None)  # a dict where layers have several
    return list(kind.values()) if isinstance(kind, dict) else [kind] if kind else []


def rotations_of(model: torch.nn.Module) -> list[Rope]:
    """What the model's rotary embeddings have computed with last, each in both styles."""
    found: dict[Rope, None] = {}
    for module in model.modules():
        if "RotaryEmbedding" not in type(module).__name__:
            continue
        for name, buffer in module.named_buffers(recurse=False):
            if not name.endswith("inv_freq") or "original" in name or buffer.dim() != 1:
                continue
            factor = getattr(module, name.replace("inv_freq", "attention_scaling"), 1.0)
            frequencies = tuple(buffer.detach().double().cpu().tolist())
            for style in ("half", "interleaved"):
                found[Rope(frequencies, style, float(factor))] = None
    return list(found)
