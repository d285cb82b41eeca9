"""Short names for canonical specs, for figures. The legend of the page has the full specs."""

from collections import defaultdict
from collections.abc import Mapping

LONGEST = 24  # characters that fit next to a figure on a phone


def base_name(spec: str) -> str:
    """The name of the policy: `h2o` in `h2o:recent=0.5+quant:bits=4@pyramid`."""
    return spec.split("@")[0].split("+")[0].split(":")[0]


def allocation_of(spec: str) -> str:
    """The part from '@' on. It is empty if the budget is split evenly."""
    at = spec.find("@")
    return "" if at < 0 else spec[at:]


def is_named(spec: str, wanted: str) -> bool:
    """Whether all that `wanted` says is so in a canonical spec.

    A name alone is that of every spec of the policy; parameters, further parts (`+`) and an
    allocation (`@`) are those that `wanted` has: `h2o:recent=0.25` names a quantised h2o, too.
    """
    parts, asked = _parts(spec), _parts(wanted)
    split, asked_split = _split(spec), _split(wanted)
    return (
        len(asked) <= len(parts)
        and asked_split[0] in ("", split[0])
        and all(_is_same(split[1].get(key, ""), value) for key, value in asked_split[1].items())
        and all(
            name == there
            and all(_is_same(settings.get(key, ""), value) for key, value in said.items())
            for (there, settings), (name, said) in zip(parts, asked)
        )
    )


def _is_same(first: str, second: str) -> bool:
    try:
        return float(first) == float(second)
    except ValueError:
        return first == second


def labels(specs: list[str], chosen: Mapping[str, str] | None = None) -> dict[str, str]:
    """A label for each spec: the chosen one, or its name with the parameters that differ.

    Parameters are named if specs without a chosen label share the name. All labels are different,
    and none is longer than LONGEST.
    """
    found: dict[str, str] = {}
    for spec in specs:
        if chosen and spec in chosen:
            found[spec] = _unused(chosen[spec], set(found.values()))
    specs = [spec for spec in specs if spec not in found]
    parsed = {spec: _parts(spec) for spec in specs}
    same = defaultdict(list)
    for spec in specs:
        same[_skeleton(spec, parsed[spec])].append(spec)
    for skeleton, group in same.items():
        for spec in group:
            text = skeleton if len(group) == 1 else _distinct(spec, group)
            found[spec] = _unused(text, set(found.values()))
    return found


def _parts(spec: str) -> list[tuple[str, dict[str, str]]]:
    parts = []
    for part in spec.split("@")[0].split("+"):
        name, _, settings = part.partition(":")
        pairs = (setting.partition("=") for setting in settings.split(",") if setting)
        parts.append((name, {key: value for key, _, value in pairs}))
    return parts


def _split(spec: str) -> tuple[str, dict[str, str]]:
    """The name of the allocation, with its '@', and its settings."""
    name, _, settings = allocation_of(spec).partition(":")
    said = {}
    for setting in settings.split(",") if settings else ():
        key, equals, value = setting.partition("=")
        said.update({key: value} if equals else {"file": key})
    return name, said


def _skeleton(spec: str, parts: list[tuple[str, dict[str, str]]]) -> str:
    return "+".join(name for name, _ in parts) + _split(spec)[0]


def _distinct(spec: str, specs: list[str]) -> str:
    group = [_parts(other) for other in specs]
    words = []
    for place, (name, settings) in enumerate(_parts(spec)):
        differing = [
            f"{key}={_short(value)}"
            for key, value in settings.items()
            if len({parts[place][1].get(key) for parts in group}) > 1
        ]
        words.append(" ".join([name, *differing]))
    name, settings = _split(spec)
    others = [_split(other)[1] for other in specs]
    differing = [
        f"{key}={_short(value)}"
        for key, value in settings.items()
        if key != "sha256" and len({of_other.get(key) for of_other in others}) > 1
    ]
    return " ".join(["+".join(words) + name, *differing])


def _short(value: str) -> str:
    value = value.rstrip("/").rpartition("/")[2]
    is_digest = len(value) == 64 and all(digit in "0123456789abcdef" for digit in value)
    return value[:6] if is_digest else value


def _unused(text: str, used: set[str]) -> str:
    if len(text) <= LONGEST and text not in used:
        return text
    is_long = len(text) > LONGEST
    number = 1 if is_long else 2
    while True:
        ending = ("…" if is_long else "") + (f" #{number}" if number > 1 else "")
        candidate = text[: LONGEST - len(ending)] + ending
        if candidate not in used:
            return candidate
        number += 1
