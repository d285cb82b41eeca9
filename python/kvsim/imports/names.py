"""Which layer and which dataset an array is, by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..errors import UsageError
from .sources import Dumped

VECTORS = ("query", "key", "value")
ROLES = (*VECTORS, "output", "attention_mask", "token_ids")
_WORDS = {
    "query": "q query queries query_states query_layer q_proj query_proj q_states",
    "key": "k key keys key_states key_layer k_proj key_proj k_states",
    "value": "v value values value_states value_layer v_proj value_proj v_states",
    "output": "o out output attn_output attn_out attention_output context context_layer",
    "attention_mask": "attention_mask padding_mask mask",
    "token_ids": "token_ids input_ids",
}
_ROLE_OF = {word: role for role, words in _WORDS.items() for word in words.split()}
_SHOWN = 6  # names in a message


@dataclass
class Named:
    """The arrays of a dump by layer and dataset, and what is of all layers."""

    layers: dict[int, dict[str, Dumped]] = field(default_factory=dict)
    shared: dict[str, list[Dumped]] = field(default_factory=dict)  # masks and token ids
    left_out: list[str] = field(default_factory=list)


def named(arrays: list[Dumped], names: Mapping[str, str] | None) -> Named:
    """Sorts arrays by their names, or by patterns with {layer}. Raises UsageError."""
    patterns = _patterns(names or {})
    found = Named()
    for array in arrays:
        role, layer = _place(array, patterns)
        if role is None:
            found.left_out.append(array.name)
        elif role not in (*VECTORS, "output"):
            found.shared.setdefault(role, []).append(array)
        else:
            of_layer = found.layers.setdefault(0 if layer is None else layer, {})
            if role in of_layer:
                raise UsageError(
                    f"{array.place}: is a second {role} of layer {layer or 0}, after "
                    f"{of_layer[role].place}; tell them apart with names={{{role!r}: "
                    "'...{layer}...'}"
                )
            of_layer[role] = array
    _require_whole(found, arrays)
    return found


def _require_whole(found: Named, arrays: list[Dumped]) -> None:
    listed = ", ".join(each.name for each in arrays[:_SHOWN]) or "nothing"
    more = f" and {len(arrays) - _SHOWN} more" if len(arrays) > _SHOWN else ""
    if not found.layers:
        raise UsageError(
            f"source: expected arrays named query, key and value, found {listed}{more}; say which "
            "they are with names={'query': '...{layer}...', ...}"
        )
    for layer, of_layer in found.layers.items():
        if missing := [role for role in VECTORS if role not in of_layer]:
            raise UsageError(
                f"source: layer {layer} has no {' and no '.join(missing)}, found {listed}{more}; "
                f"say which it is with names={{{missing[0]!r}: '...{{layer}}...'}}"
            )
    with_output = [layer for layer, of_layer in found.layers.items() if "output" in of_layer]
    if with_output and len(with_output) < len(found.layers):
        without = next(layer for layer in found.layers if layer not in with_output)
        raise UsageError(f"source: layer {with_output[0]} has an output, layer {without} has none")


def _patterns(names: Mapping[str, str]) -> dict[str, re.Pattern[str]]:
    patterns = {}
    for role, pattern in names.items():
        if role not in ROLES:
            raise UsageError(f"names: expected some of {', '.join(ROLES)}, found {role}")
        if pattern.count("{layer}") > 1:
            raise UsageError(f"names: {role}: expected {{layer}} once, found {pattern!r}")
        parts = map(re.escape, pattern.split("{layer}"))
        patterns[role] = re.compile(r"(?P<layer>\d+)".join(parts))
    return patterns


def _place(array: Dumped, patterns: dict[str, re.Pattern[str]]) -> tuple[str | None, int | None]:
    for role, pattern in patterns.items():
        if match := pattern.fullmatch(array.name):
            has_layer = "layer" in pattern.groupindex
            return role, int(match["layer"]) if has_layer else array.layer
    roles = {role for part in _parts(array.name) if (role := _role_of(part))}
    roles -= set(patterns)  # what is named is found by its pattern alone
    if len(roles) > 1:
        raise UsageError(
            f"{array.place}: the name says {' and '.join(sorted(roles))}; say which it is with "
            "names={'query': '...{layer}...', ...}"
        )
    if not roles:
        return None, None
    return roles.pop(), _layer_of(array)


def _layer_of(array: Dumped) -> int | None:
    numbers = re.findall(r"(?:layers?|blocks?|(?<![a-z])h)[._\-/]?(\d+)", array.name, re.IGNORECASE)
    numbers = numbers or re.findall(r"\d+", array.name)
    if len(numbers) > 1:
        raise UsageError(
            f"{array.place}: the name has several numbers; say which is the layer with "
            "names={'query': '...{layer}...', ...}"
        )
    if not numbers:
        return array.layer
    layer = int(numbers[0])
    if array.layer is not None and array.layer != layer:
        raise UsageError(f"{array.place}: is of layer {layer}, but its file of {array.layer}")
    return layer


def _parts(name: str) -> list[str]:
    """The words of a name between dots and slashes, without numbers."""
    return [re.sub(r"\d+", "", part).strip("_").lower() for part in re.split(r"[./:\-\[\]]", name)]


def _role_of(part: str) -> str | None:
    """Of a word as in `layer_query_states`, the longest end that names a dataset."""
    words = [word for word in part.split("_") if word]
    ends = ("_".join(words[i:]) for i in range(len(words)))
    whole = next((end for end in ends if end in _ROLE_OF), None)
    starts = ("_".join(words[:i]) for i in range(len(words), 0, -1))
    if whole is None:
        whole = next((start for start in starts if start in _ROLE_OF), None)
        if whole is not None and len(words) > 1 and words[1] not in ("layer", "l"):
            return None  # as o_proj, which is behind the output projection
    return _ROLE_OF[whole] if whole else None
