"""Compares attention where the model computes it: on its device, with the numbers to be stored.

The errors stay on the device until a text ends. They decide only where they show that the
comparison on the CPU (stored_type.py) would agree, too; it decides everywhere else.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import torch
from torch.backends.cuda import SDPAParams, can_use_flash_attention
from torch.nn.functional import pad, scaled_dot_product_attention

from ..model.host import on_host
from ..model.masks import Reach
from ..model.shape import Shape
from .spool import FORMS
from .stored_type import Compared, types_of

LOGITS_AT_ONCE = 1 << 25  # numbers: 128 MiB, and as much for what is computed from them
LEAST_LENGTH = 2**-14  # below, float16 has fewer digits
ROWS = 256  # queries of a block, unless its logits are too many

Vectors = Mapping[str, torch.Tensor]  # query, key, value, output: [heads, n, dim]
Found = tuple[dict[str, str], int, torch.Tensor]  # types, tokens, the largest error []


def is_compared(rows: torch.Tensor) -> bool:
    """Whether attention with these vectors is compared where they are."""
    return rows.device.type == "cuda"


class DeviceErrors:
    """The errors of the layers of one text that was read in one forward pass.

    Where passes follow, their keys come from a cache and not from what was recorded, so that the
    text has none.
    """

    def __init__(self) -> None:
        self._found: dict[int, Found] = {}

    @torch.no_grad()
    def look(
        self, layer: int, vectors: Vectors, asked: str, shape: Shape, reach: Reach,
        sinks: torch.Tensor | None,
    ) -> None:  # fmt: skip
        """Compares a layer's attention over the whole text. The CPU does not wait for the device.

        `asked` is one of DTYPES; `sinks` are learned logits [query heads]. Where the device fails
        at it, for want of memory, nothing is found.
        """
        # cuBLAS without memory raises no OutOfMemoryError.
        with suppress(RuntimeError), _as_precisely_as_it_can(vectors["query"].device.type):
            self._found[layer] = _compared(vectors, asked, shape, reach, sinks)

    def read(self, num_tokens: int) -> dict[int, Compared]:
        """What was found, by layer, if that was all of the text. Waits for the device once."""
        found = {layer: each for layer, each in self._found.items() if each[1] == num_tokens}
        self._found = {}
        errors = on_host(*(worst for _, _, worst in found.values()))
        return {
            layer: Compared(types, float(error) + _rounding(types))
            for (layer, (types, _, _)), error in zip(found.items(), errors, strict=True)
        }


def _compared(
    vectors: Vectors, asked: str, shape: Shape, reach: Reach, sinks: torch.Tensor | None
) -> Found:
    types = types_of(vectors, "float32" if asked == "float32" else "float16")
    stored = {name: _stored(rows.detach(), types[name]) for name, rows in vectors.items()}
    worst = None
    is_plain = not shape.logit_softcap and sinks is None
    if is_plain and {*types.values()} == {"float16"} and _sees_all(reach, stored["query"]):
        worst = worst_fused(stored, shape.scale)
    if worst is None:
        worst = worst_in_blocks(stored, shape, reach, sinks)
    return types, stored["query"].shape[1], worst


def worst_in_blocks(
    stored: Vectors, shape: Shape, reach: Reach, sinks: torch.Tensor | None
) -> torch.Tensor:
    """The largest error as `kvsim verify` has it, [], in float32.

    Takes at most 350 MB for 128k tokens.
    """
    key, value = stored["key"], stored["value"]
    kv_heads, tokens, _ = key.shape
    query, output = (stored[name].unflatten(0, (kv_heads, -1)) for name in ("query", "output"))
    group = query.shape[1]
    if sinks is not None:
        sinks = sinks.detach().float().view(kv_heads, group, 1, 1)
    at_once = min(max(LOGITS_AT_ONCE // (group * ROWS * tokens), 1), kv_heads)
    rows = min(max(LOGITS_AT_ONCE // (at_once * group * tokens), 1), tokens)
    worst = []
    for head in range(0, kv_heads, at_once):
        heads = slice(head, head + at_once)
        for first in range(0, tokens, rows):
            steps = slice(first, first + rows)
            low = max(int(reach.first_of(torch.tensor(first, device="cpu"))), 0)
            seen = slice(low, min(steps.stop, tokens))
            weights = _weights(
                query[heads, :, steps].float(), key[heads, seen].float(), low, first,
                shape, reach, None if sinks is None else sinks[heads],
            )  # fmt: skip
            numbers = value[heads, seen].float()
            lengths = torch.linalg.vector_norm(numbers, dim=-1, keepdim=True)
            found = weights.flatten(1, 2) @ torch.cat([numbers, lengths], dim=-1)
            found = found.unflatten(1, weights.shape[1:3])
            del weights, numbers  # before the next ones are there
            worst.append(_error(found[..., :-1], found[..., -1], output[heads, :, steps]).amax())
    return torch.stack(worst).amax()


def worst_fused(stored: Vectors, scale: float) -> torch.Tensor | None:
    """The same, [], where each step sees all before it, by one fused kernel in half precision.

    None if there is no such kernel for these vectors, and NaN for values too small for it. The
    lengths of the values go through it as one more number of each value, over the root of their
    dimension, so that they are no larger than the largest number. What weights below 2^-14 of the
    largest lose, at most 2^-25 each, is added: it counts where the others have short values.
    """
    query, key, value = stored["query"], stored["key"], stored["value"]
    dim = value.shape[2]
    lengths = torch.linalg.vector_norm(value.float(), dim=-1, keepdim=True) * dim**-0.5
    value = torch.cat([value, lengths.half()], dim=-1)
    lost = lengths.squeeze(-1).cumsum(1) * (2**-25 * dim**0.5)  # [KV heads, n], of each step
    lost = lost.repeat_interleave(query.shape[0] // key.shape[0], 0)
    width = -(-max(query.shape[2], dim + 1) // 8) * 8  # of kernels
    wide = [pad(rows, (0, width - rows.shape[2]))[None] for rows in (query, key, value)]
    if not _fuses(*wide):
        return None
    found = scaled_dot_product_attention(*wide, is_causal=True, scale=scale, enable_gqa=True)[0]
    parts = (each.split(ROWS * 4, 1) for each in (found, stored["output"], lost))
    worst = []
    for rows, expected, of_rows in zip(*parts, strict=True):
        mean = rows[..., dim].float()
        summed = mean.masked_fill(mean < LEAST_LENGTH, torch.nan) * dim**0.5
        share = of_rows / summed  # that the outputs may lack, and the sum
        error = _error(rows[..., :dim], summed, expected)
        worst.append(((error + share) / (1 - share).clamp(min=0.0)).amax())
    return torch.stack(worst).amax()


def _weights(
    query: torch.Tensor, key: torch.Tensor, low: int, first: int, shape: Shape, reach: Reach,
    sinks: torch.Tensor | None,
) -> torch.Tensor:  # fmt: skip
    """Attention [KV heads, group, rows, keys] of steps from `first` on to keys from `low` on."""
    logits = (query.flatten(1, 2) * shape.scale) @ key.transpose(1, 2)
    logits = logits.unflatten(1, query.shape[1:3])
    if cap := shape.logit_softcap:
        logits.div_(cap).tanh_().mul_(cap)
    step = torch.arange(first, first + query.shape[2], device=key.device)[:, None]
    token = torch.arange(low, low + key.shape[1], device=key.device)
    logits.masked_fill_((token > step) | (token < reach.first_of(step)), -torch.inf)
    if sinks is None:
        return logits.softmax(-1)
    largest = torch.maximum(logits.amax(-1, keepdim=True), sinks)
    weights = logits.sub_(largest).exp_()
    return weights.div_(weights.sum(-1, keepdim=True) + (sinks - largest).exp())


def _error(found: torch.Tensor, summed: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """|found - output| / summed of each output; NaN where `summed` is."""
    difference = torch.linalg.vector_norm(found.float() - output.float(), dim=-1)
    return (difference / summed).masked_fill((difference == 0) & (summed == 0), 0.0)


def _stored(rows: torch.Tensor, kind: str) -> torch.Tensor:
    """The numbers as they are kept, then as they are stored."""
    if str(rows.dtype).removeprefix("torch.") not in FORMS:
        rows = rows.float()
    return rows.to(getattr(torch, kind))


def _sees_all(reach: Reach, query: torch.Tensor) -> bool:
    most = query.shape[1]
    return all(size is None or size >= most for size in (reach.window, reach.chunk))


def _fuses(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether attention of these runs without a matrix of its logits."""
    try:
        given = SDPAParams(query, key, value, None, 0.0, True, True)
    except TypeError:
        return False  # before torch 2.5, without grouped heads
    return can_use_flash_attention(given)


def _rounding(types: Mapping[str, str]) -> float:
    """What rounding on the device may take off an error, at most.

    In half precision each weight, each length and each output by 2^-11 of itself; for weights that
    are too small for that see worst_fused(). In float32 we allow a tenth of the limit.
    """
    return 2**-9 if "float16" in types.values() else 1e-5


@contextmanager
def _as_precisely_as_it_can(kind: str) -> Iterator[None]:
    """Lets this kind of device compute in the types of the numbers, whatever the model does.

    Raises RuntimeError where torch does not say how products are rounded.
    """
    before = torch.get_float32_matmul_precision()
    try:
        if before != "highest":  # TF32
            torch.set_float32_matmul_precision("highest")
        with torch.autocast(kind, enabled=False):
            yield
    finally:
        if before != "highest":
            torch.set_float32_matmul_precision(before)
