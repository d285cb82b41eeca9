"""Writes python/architectures.md, which says for which kinds of models a trace can be recorded.

python tests/python/architectures/page.py
"""

import re
import textwrap
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import campaign
import small_models
import transformers
from campaign import Outcome

PAGE = Path(__file__).parents[3] / "python" / "architectures.md"
WIDTH = 120

HEAD = """
Each kind of language model that **{version}** knows, by its `model_type`: {kinds} kinds, of which
{recorded} can be recorded. Each was built small, with random weights, and tried: a trace was
recorded without a change of the model's logits, `kvsim verify` agreed with it, both loops gave the
same numbers for `window` and `sink`, `generate` the same tokens with `drop=True` as without, and
what stands in for the model's attention returned the same shape, strides and type as that.

`python tests/python/architectures/page.py` tries all again and writes this page. The Python tests
try ten and compare with it, `make nightly` all. A model of a kind may differ from the small one:
its configuration decides about sliding windows, for example.
"""
LIMITS = """
The trace has the layers that attend; the others keep a state, convolve, or attend to images.
Where `drop=True` keeps rows under `tova`, masks hide what is evicted and no memory is saved.
Without the rotation, `positions=slot` cannot be replayed.
"""
NOT_TRIED = "Without kvsim, there is no small model of them that reads a text."
FAILED = "An error that is no refusal, or a number that does not agree."

# What a reason means to who reads it for the first time, by what it begins with.
MEANING = {
    "The model does not use": "Attention is written out in the model, or in a part of it, so "
    "nothing can stand in for it and see queries, keys and values.",
    "The model has no attention": "State-space models have no keys and values.",
    "A layer selects other tokens": "The model itself chooses which keys a query sees.",
    "A layer attends twice": "A layer has two attentions, or runs in a loop.",
}
NOTES = {
    "git": "attention of the text is written out in the model",
    "zamba2": "layers share a block, which does not say for which of them it attends",
}


def render(outcomes: Iterable[Outcome]) -> str:
    """The page."""
    outcomes = sorted(outcomes, key=lambda outcome: outcome.kind)
    failed = [each for each in outcomes if each.failures]
    recorded = [each for each in outcomes if each.is_recorded and not each.failures]
    refused = [each for each in outcomes if each.is_tried and each not in (*recorded, *failed)]
    head = HEAD.format(version=made_with(), kinds=len(outcomes), recorded=len(recorded))
    return "\n\n".join(
        [
            "# Which models can be recorded",
            *map(_wrapped, head.strip().split("\n\n")),
            *_section("Recorded", [each for each in recorded if not each.limits]),
            *_section("Recorded, with limits", [each for each in recorded if each.limits], LIMITS),
            *_refusals(refused),
            *_section("Not tried", [each for each in outcomes if not each.is_tried], NOT_TRIED),
            *_section("Failures of kvsim, to be mended", failed, FAILED),
        ]
    ) + "\n"  # fmt: skip


def made_with() -> str:
    return f"transformers {transformers.__version__}"


def entries(page: str) -> dict[str, str]:
    """What a page says of each kind: the heading or reason above its line, and the line."""
    found: dict[str, str] = {}
    above, kind = "", ""
    for line in page.splitlines():
        if line.startswith(("## ", "**")):
            above, kind = line, ""
        elif named := re.match(r"- `(.+?)`", line):
            kind = named[1]
            found[kind] = f"{above} {line}"
        elif kind and line.startswith("  "):
            found[kind] += line[1:]
    return found


def _section(heading: str, outcomes: list[Outcome], about: str = "") -> list[str]:
    if not outcomes:
        return []
    lines = []
    for each in outcomes:
        said = "; ".join([*filter(None, [each.reason]), *each.limits, *each.failures])
        lines.append(_line(each.kind, said))
    return [f"## {heading}", *filter(None, [_wrapped(about)]), "\n".join(lines)]


def _refusals(outcomes: list[Outcome]) -> list[str]:
    """A list of kinds below each reason."""
    parts = ["## Refused"]
    for reason, group in groupby(sorted(outcomes, key=_reason), _reason):
        meaning = next((MEANING[begin] for begin in MEANING if reason.startswith(begin)), "")
        parts.append(_wrapped(f"**{reason}.** {meaning}"))
        parts.append("\n".join(_line(each.kind, NOTES.get(each.kind, "")) for each in group))
    return parts if outcomes else []


def _reason(outcome: Outcome) -> str:
    """Of a refusal, without what differs from model to model: names of classes and numbers."""
    reason = re.sub(r"^\w+(CausalLM|Generation|LMHead|LMHeadModel)\b", "the model", outcome.reason)
    reason = re.sub(r"\b\d+\b", "N", re.sub(r"\blayer \d+", "a layer", reason))
    return reason[:1].upper() + reason[1:]


def _line(kind: str, said: str) -> str:
    return _wrapped(f"- `{kind}`: {said}" if said else f"- `{kind}`", indent="  ")


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(
        " ".join(text.split()), WIDTH, subsequent_indent=indent, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


if __name__ == "__main__":
    PAGE.write_text(render(campaign.tried(small_models.kinds())))
