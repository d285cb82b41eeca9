"""What a trace may hold in addition to the vectors of attention (traces/README.md)."""

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import h5py
import numpy as np
import torch

from ..errors import RecordError, UsageError
from ..model.attention import Call, Intercept
from ..model.mlp_activation import activation_functions
from ..model.output_projection import LayerOutput, layer_outputs
from ..model.whole_pass import (
    See,
    ignore,
    inputs_seen,
    outputs_seen,
    score_gradients,
    whole_pass,
)
from .packing import Packing, write_chunked
from .sequence import Seen, Sequence
from .stored_type import LARGEST_FLOAT16
from .trace_file import TraceFile, rows_per_chunk

PROJECTION, RESIDUAL, GRADIENT = "output_projection", "residual", "output_score_grad"
ACTIVATION = "mlp_activation"
PARTS = (PROJECTION, RESIDUAL, GRADIENT, ACTIVATION)
LARGEST_SEED = 2**31 - 1

# Of the heads' outputs, relative to their length: rounding to half precision stays below, other
# positions or another text far above.
OUTPUT_TOLERANCE = 0.1

# The largest float16 is 65504, and below 2^-14 it has fewer digits.
EXPONENT_OF_LARGEST = 13
LEAST_EXPONENT = -126  # of a float32 with all digits


@dataclass(frozen=True)
class Also:
    """What to record in addition to queries, keys, values and outputs. Raises UsageError."""

    parts: frozenset[str] = frozenset()
    gradient_samples: int = 1
    label_seed: int = 0

    @staticmethod
    def of(parts: str | Iterable[str], gradient_samples: int = 1, label_seed: int = 0) -> "Also":
        """`parts`: names, in a list or joined by commas."""
        names = parts.split(",") if isinstance(parts, str) else list(parts)
        names = [name.strip() for name in names if name.strip()]
        if unknown := [name for name in names if name not in PARTS]:
            raise UsageError(f"also: expected some of {', '.join(PARTS)}, found {unknown[0]!r}")
        if gradient_samples < 1:
            raise UsageError(f"gradient_samples: expected 1 or more, found {gradient_samples}")
        if not 0 <= label_seed <= LARGEST_SEED:
            raise UsageError(f"label_seed: expected one in 0..{LARGEST_SEED}, found {label_seed}")
        if GRADIENT not in names and (gradient_samples, label_seed) != (1, 0):
            raise UsageError(
                f"gradient_samples and label_seed are those of {GRADIENT}; name it in also, or "
                "leave them out"
            )
        return Also(frozenset(names), gradient_samples, label_seed)

    def layers_of(self, model: torch.nn.Module, layers: Iterable[int]) -> dict[int, LayerOutput]:
        """How attention enters the residual stream, where that is to be recorded.

        Raises RecordError for a model in which it does not do so by a projection alone.
        """
        return layer_outputs(model, layers) if self.parts & {PROJECTION, RESIDUAL} else {}

    def activations_of(
        self, model: torch.nn.Module, layers: Iterable[int]
    ) -> dict[int, torch.nn.Module]:
        """The activation functions of the MLPs, where their outputs are to be recorded.

        Raises RecordError for a layer without one MLP that every token goes through.
        """
        return activation_functions(model, layers) if ACTIVATION in self.parts else {}

    @property
    def reads_whole(self) -> bool:
        """Whether the model has to read a whole text at once."""
        return bool(self.parts - {PROJECTION})


def write_projections(
    file: TraceFile,
    outputs: Mapping[int, LayerOutput],
    heads_of: Callable[[int], int],
    dtype: str,
) -> None:
    """Writes W_O of each layer, in chunks of one of the query heads each."""
    for layer, output in outputs.items():
        path = f"/model/layers/{layer}/{PROJECTION}"
        numbers = stored_as(dtype, output.projection, path)
        rows, hidden = numbers.shape
        write_chunked(file.h5, path, numbers, (rows // heads_of(layer), hidden), file.packing)


@dataclass(frozen=True)
class Reading:
    """Lets the model read a whole text for what `also` asks of it, and writes that."""

    also: Also
    model: torch.nn.Module
    outputs: Mapping[int, LayerOutput]
    activations: Mapping[int, torch.nn.Module]
    dtype: str
    packing: Packing

    def read(
        self, ids: list[int], layers: set[int], attend: Intercept, see_output: See = ignore
    ) -> Seen:
        """One forward pass, whose attention `attend` computes; `see_output` as of whole_pass()."""
        also, seen = self.also, Seen({}, {})

        def keep(part: str) -> See:
            def see(layer: int, rows: torch.Tensor) -> None:
                place = f"layers/{layer}/{part}"
                seen.rows[layer, part] = stored_as(self.dtype, rows, place)

            return see

        with ExitStack() as stack:
            if RESIDUAL in also.parts:
                modules = {layer: self.outputs[layer].layer for layer in layers}
                stack.enter_context(inputs_seen(modules, keep(RESIDUAL)))
            functions = {
                layer: self.activations[layer] for layer in layers & self.activations.keys()
            }
            stack.enter_context(outputs_seen(functions, keep(ACTIVATION)))
            if GRADIENT in also.parts:
                samples, seed = also.gradient_samples, also.label_seed
                seen.gradients = score_gradients(
                    self.model, ids, layers, samples, seed, see_output, attend
                )
            else:
                whole_pass(self.model, ids, layers, see_output, attend)
        return seen

    def write(self, sequence: Sequence, group: h5py.Group) -> None:
        """Writes to the group of the sequence's layers.

        If the text was not read whole, the model reads it once more. Raises RecordError if that is
        not the text that was recorded.
        """
        if not self.also.reads_whole:
            return
        seen = sequence.seen or self._read_again(sequence)
        layers = set(sequence.layers)  # of a text, those that attend
        for (layer, part), numbers in seen.rows.items():
            if layer in layers:
                chunk = (rows_per_chunk(numbers[0].nbytes, len(numbers)), numbers.shape[1])
                write_chunked(group, f"{layer}/{part}", numbers, chunk, self.packing)
        if GRADIENT in self.also.parts and (missing := layers - seen.gradients.keys()):
            raise RecordError(f"layer {min(missing)} has no attention that was seen")
        for layer, gradient in seen.gradients.items():
            seed = self.also.label_seed
            _write_gradient(group, f"{layer}/{GRADIENT}", gradient, seed, self.packing)

    def _read_again(self, sequence: Sequence) -> Seen:
        if sequence.ids is None:
            raise RecordError(
                f"sequence {sequence.name}: expected token ids, which {_names(self.also)} needs to "
                "read the text again, found embeddings; leave it out of also"
            )

        def check(layer: int, output: torch.Tensor) -> None:
            _require_same(sequence, layer, output.transpose(0, 1))

        return self.read(sequence.ids, set(sequence.layers), Call.attend, check)


def stored_as(kind: str, rows: torch.Tensor, place: str) -> np.ndarray:
    """The numbers in this type of DTYPES; AUTO is float16 where they fit into it.

    Raises RecordError for numbers that do not fit.
    """
    rows = rows.detach()
    if not bool(torch.isfinite(rows).all()):
        raise RecordError(f"{place}: the model computed a number that is not finite")
    largest = float(rows.abs().max())
    fits = largest <= LARGEST_FLOAT16
    if kind == "float16" and not fits:
        raise RecordError(
            f"{place}: {largest:g} does not fit into float16; use --dtype auto or float32"
        )
    stored = torch.float16 if fits and kind != "float32" else torch.float32
    return rows.to(stored).cpu().numpy()


def gradient_scale(largest: float) -> float:
    """The power of two over which the largest gradient of a layer is in [2^13, 2^14).

    Its float16 is then 4 to 8 times below overflow, and those down to 2^-28 of it keep all digits.
    """
    if largest == 0:
        return 1.0
    exponent = math.frexp(largest)[1] - 1
    return 2.0 ** max(exponent - EXPONENT_OF_LARGEST, LEAST_EXPONENT)


def _write_gradient(
    group: h5py.Group, path: str, gradient: torch.Tensor, seed: int, packing: Packing
) -> None:
    """Writes [samples, query heads, n, value_dim] as float16."""
    if not bool(torch.isfinite(gradient).all()):
        raise RecordError(f"{group.name}/{path}: the model computed a number that is not finite")
    scale = gradient_scale(float(gradient.abs().max()))
    numbers = (gradient / scale).half().numpy()
    rows = rows_per_chunk(numbers[0, 0, 0].nbytes, numbers.shape[2])
    dataset = write_chunked(group, path, numbers, (1, 1, rows, numbers.shape[3]), packing)
    dataset.attrs.create("scale", np.float64(scale))
    dataset.attrs.create("label_seed", np.int64(seed))


def _require_same(sequence: Sequence, layer: int, output: torch.Tensor) -> None:
    """Raises RecordError unless the heads' outputs [heads, n, dim] are those recorded."""
    rows = sequence.spooled[layer]["output"]
    recorded = torch.from_numpy(np.stack([rows.head(head) for head in range(rows.heads)]))
    difference = torch.linalg.norm(output.float().cpu() - recorded) / torch.linalg.norm(recorded)
    if not difference <= OUTPUT_TOLERANCE:
        raise RecordError(
            f"sequence {sequence.name}, layer {layer}: reading the text again, alone, gives other "
            f"outputs (they differ by {float(difference):.0%}); expected positions that count from "
            f"0; leave {GRADIENT}, {RESIDUAL} and {ACTIVATION} out of also"
        )


def _names(also: Also) -> str:
    return " and ".join(part for part in PARTS if part in also.parts and part != PROJECTION)
