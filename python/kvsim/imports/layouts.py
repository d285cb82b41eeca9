"""Which axis of an array is which, where its shape and those of the others leave one answer."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import UsageError

if TYPE_CHECKING:
    import numpy as np

Shape = tuple[int, ...]
Layout = Mapping[str, str]  # by dataset

# b: batch, h: heads, t: tokens, d: dimensions of a head; (hd): the heads one after the other.
LAYOUTS = {"bhtd": 4, "bthd": 4, "htd": 3, "thd": 3, "bt(hd)": 3, "t(hd)": 2}


@dataclass(frozen=True)
class Known:
    """What the caller says of the model; None: nothing."""

    num_query_heads: int | None = None
    num_kv_heads: int | None = None
    head_dim: int | None = None
    batch_and_tokens: Shape | None = None  # of a mask or token ids


@dataclass(frozen=True)
class Sizes:
    """Of one array, after its layout."""

    batch: int
    heads: int
    tokens: int
    dim: int


def asked_layout(layout: str | Mapping[str, str] | None) -> dict[str, str]:
    """The layouts that the caller names, by dataset. Raises UsageError."""
    named = dict.fromkeys(("query", "key", "value"), layout) if isinstance(layout, str) else layout
    for role, each in (named or {}).items():
        if role not in ("query", "key", "value", "output") or each not in LAYOUTS:
            raise UsageError(
                f"layout: expected one of {', '.join(LAYOUTS)} for query, key, value or output, "
                f"found {each} for {role}"
            )
    return dict(named or {})


def decided(
    shapes: Mapping[int, Mapping[str, Shape]], asked: Mapping[str, str], known: Known
) -> dict[str, str]:
    """The one layout that fits all layers. Raises UsageError where there is none, or several."""
    first = min(shapes)
    fitting = [
        layout
        for layout in _candidates(shapes[first], asked)
        if _fits(shapes, layout, asked, known)
    ]
    if len(fitting) == 1:
        return fitting[0]
    found = ", ".join(f"{role} {list(shape)}" for role, shape in shapes[first].items())
    place = f"layer {first}: found {found}"
    if fitting:
        read = "; or ".join(_said(layout, shapes[first], known) for layout in fitting)
        raise UsageError(f"{place}: this may be {read}; say which with layout or num_query_heads")
    raise UsageError(f"{place}: {_why_none(shapes, asked, known)}")


def sizes_of(role: str, layout: str, shape: Shape, heads: int | None) -> Sizes | None:
    """The axes of a shape in this layout; None: it does not fit. `heads`: of flat ones."""
    if len(shape) != LAYOUTS[layout] or 0 in shape:
        return None
    if layout.endswith("(hd)"):
        if heads is None or shape[-1] % heads:
            return None
        return Sizes(shape[0] if len(shape) == 3 else 1, heads, shape[-2], shape[-1] // heads)
    axes = dict(zip(layout, shape))
    return Sizes(axes.get("b", 1), axes["h"], axes["t"], axes["d"])


def as_heads(array: np.ndarray, layout: str, heads: int) -> np.ndarray:
    """The array as [batch, heads, tokens, dim]; a view where it may be one."""
    if layout.endswith("(hd)"):
        array = array.reshape(*array.shape[:-1], heads, -1)
        layout = layout.replace("(hd)", "hd")
    if "b" not in layout:
        array, layout = array[None], "b" + layout
    return array.transpose([layout.index(axis) for axis in "bhtd"])


def all_sizes(shapes: Mapping[str, Shape], layout: Layout, known: Known) -> dict[str, Sizes] | None:
    """Of the arrays of a layer; None: some does not fit its layout."""
    heads = {"query": known.num_query_heads, "output": known.num_query_heads}
    query = sizes_of("query", layout["query"], shapes["query"], heads["query"])
    if query is None:
        return None
    # Keys have the dimensions of queries, which says how many heads stand in a flat array.
    kv_heads = known.num_kv_heads
    if layout["key"].endswith("(hd)"):
        dims = shapes["key"][-1]
        if dims % query.dim:
            return None
        kv_heads = dims // query.dim
    elif (key := sizes_of("key", layout["key"], shapes["key"], None)) is not None:
        kv_heads = key.heads
    heads |= {"key": kv_heads, "value": kv_heads, "output": query.heads}
    found = {
        role: sizes_of(role, layout[role], shape, heads[role]) for role, shape in shapes.items()
    }
    return None if None in found.values() else found


def _candidates(shapes: Mapping[str, Shape], asked: Mapping[str, str]) -> list[dict[str, str]]:
    """Queries, keys and values have the same layout unless the caller says otherwise."""
    of_role = {
        role: [asked[role]] if role in asked else [
            layout for layout, axes in LAYOUTS.items() if axes == len(shape)
        ]
        for role, shape in shapes.items()
    }  # fmt: skip
    combined = [dict(zip(of_role, each)) for each in itertools.product(*of_role.values())]
    return [
        layout
        for layout in combined
        if len({layout[role] for role in ("query", "key", "value") if role not in asked}) <= 1
    ]


def _fits(
    shapes: Mapping[int, Mapping[str, Shape]],
    layout: Layout,
    asked: Mapping[str, str],
    known: Known,
) -> bool:
    first: tuple[int, int] | None = None
    for of_layer in shapes.values():
        sizes = all_sizes(of_layer, layout, known)
        if sizes is None or not _agree(sizes, known):
            return False
        batch = sizes["query"].batch, sizes["query"].tokens
        if batch != (first or batch) or (batch[1] == 1 and "query" not in asked):
            return False  # one token attends to nothing that could be evicted
        first = batch
    return True


def _agree(sizes: Mapping[str, Sizes], known: Known) -> bool:
    query, key, value = (sizes[role] for role in ("query", "key", "value"))
    output = sizes.get("output", Sizes(query.batch, query.heads, query.tokens, value.dim))
    batches = {(each.batch, each.tokens) for each in sizes.values()}
    return (
        len(batches) == 1
        and known.batch_and_tokens in (None, *batches)
        and query.heads % key.heads == 0
        and (value.heads, key.dim) == (key.heads, query.dim)
        and (output.heads, output.dim) == (query.heads, value.dim)
        and known.num_query_heads in (None, query.heads)
        and known.head_dim in (None, query.dim)
        and (known.num_kv_heads in (None, key.heads) or key.heads == query.heads)
    )


def _said(layout: Layout, shapes: Mapping[str, Shape], known: Known) -> str:
    sizes = all_sizes(shapes, layout, known)["query"]
    output = f" and output {layout['output']}" if "output" in layout else ""
    return f"{layout['query']}{output} ({sizes.heads} query heads, {sizes.tokens} tokens)"


def _why_none(
    shapes: Mapping[int, Mapping[str, Shape]], asked: Mapping[str, str], known: Known
) -> str:
    """What to do where no layout fits."""
    first = shapes[min(shapes)]
    for layout in _candidates(first, asked):
        sizes = all_sizes(first, layout, known)
        if sizes and sizes["query"].tokens == 1 < sizes["key"].tokens:
            return (
                f"this looks like a decode step, 1 query and {sizes['key'].tokens} keys "
                f"({layout['query']}); a trace has a query of every token: dump one pass over the "
                "whole text"
            )
    for layer, of_layer in shapes.items():
        if {role: len(shape) for role, shape in of_layer.items()} != {
            role: len(shape) for role, shape in first.items()
        }:
            return f"layer {layer} has another number of axes"
    is_flat = any(len(shape) < 4 for shape in first.values())
    if is_flat and known.num_query_heads is None:
        return "no layout fits; of flat projections, bt(hd) or t(hd), name num_query_heads too"
    wanted = ", ".join(f"{role} {each}" for role, each in asked.items()) or ", ".join(LAYOUTS)
    said = ", ".join(f"{name} {each}" for name, each in vars(known).items() if each is not None)
    return (
        f"no layout fits ({wanted}{'; ' if said else ''}{said}): batch and tokens must be the same "
        "in all layers, query heads a multiple of key heads, and key dimensions those of queries"
    )
