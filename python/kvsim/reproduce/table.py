"""Prints findings: three columns for people, CSV or JSON for programs."""

from __future__ import annotations

import csv
import io
import json
import textwrap
from collections.abc import Sequence
from dataclasses import fields

from ..errors.terminal import printable
from .claims import Claim, Finding

WIDTHS = (46, 50, 26)
_TITLES = ("the paper", "this model", "verdict")
_GAP = "  "
COLUMNS = [
    *(field.name for field in fields(Claim)),
    *(field.name for field in fields(Finding) if field.name not in ("claim", "as_percent")),
]


def printed(findings: Sequence[Finding], how: str) -> str:
    """The findings as `table`, `csv` or `json`."""
    return {"table": _table, "csv": _csv, "json": _json}[how](findings)


def record_of(finding: Finding) -> dict[str, object]:
    """All that a finding says, by column."""
    claim = finding.claim
    return {name: getattr(claim if hasattr(claim, name) else finding, name) for name in COLUMNS}


def _table(findings: Sequence[Finding]) -> str:
    """A row per finding; a claim is printed once, next to the first of its rows."""
    lines = [_row(*([title] for title in _TITLES)), _row(*(["-" * width] for width in WIDTHS))]
    groups: list[list[Finding]] = []
    for finding in findings:
        if groups and groups[-1][0].claim == finding.claim:
            groups[-1].append(finding)
        else:
            groups.append([finding])
    for group in groups:
        shown: list[str] = []
        verdicts: list[str] = []
        before = None
        for finding in group:
            if finding.conditions() and finding.conditions() != before:
                before = finding.conditions()
                shown += _wrapped(f"{before}:", WIDTHS[1])
            left = _wrapped(finding.shown(), WIDTHS[1])
            right = _wrapped(finding.verdict, WIDTHS[2])
            shown += [""] * (len(verdicts) - len(shown))
            verdicts += [""] * (len(shown) - len(verdicts))
            shown += left
            verdicts += right
        lines += [_row(_told(group[0].claim), shown, verdicts), ""]
    return "\n".join(lines[:-1]) + "\n"


def _told(claim: Claim) -> list[str]:
    numbers = [line for part in claim.numbers.split("; ") for line in _wrapped(part, WIDTHS[0])]
    cell = _wrapped(f"{claim.paper}, {claim.cell}:", WIDTHS[0])
    return [*cell, *_wrapped(claim.says, WIDTHS[0]), *numbers]


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(printable(text), width) or []


def _row(*cells: Sequence[str]) -> str:
    height = max(map(len, cells))
    padded = [[*cell, *[""] * (height - len(cell))] for cell in cells]
    return "\n".join(
        _GAP.join(part.ljust(width) for part, width in zip(parts, WIDTHS)).rstrip()
        for parts in zip(*padded)
    )


def _csv(findings: Sequence[Finding]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(record_of(finding) for finding in findings)
    return out.getvalue()


def _json(findings: Sequence[Finding]) -> str:
    return json.dumps([record_of(finding) for finding in findings], indent=1) + "\n"
