"""Scissorhands (Liu et al., 2023): perplexity against compression, and 4-bit quantisation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .claims import CANNOT, Claim, Finding, judged
from .rows import ANSWERS, FULL, PERPLEXITY

if TYPE_CHECKING:
    from .experiment import Experiment
    from .rows import Rows

BUDGETS = ("75%", "50%", "33%", "20%")
POLICIES = {"local": "window", "Scissorhands": "scissorhands"}
QUANTISED = {"Scissorhands": "scissorhands", "with 4 bits": "scissorhands+quant:bits=4"}
OF_LENGTHS, OF_QUANTISATION = "33%", "50%"
LEAST_FOR_PERPLEXITY, LEAST_FOR_ACCURACY = 0.5, 0.2  # what the paper claims, as a share of the text
LENGTHS = (512, 1024)  # the longest of the first two columns of Table 3
MATCHES = 0.01  # ours; the paper calls results equal without a margin

PERPLEXITY_STAYS = Claim(
    "Scissorhands", "Figure 3 and section 5, language modeling",
    "perplexity is maintained until 50% of the cache (2x compression)",
    "C4, OPT-13B; for OPT-66B until 75%; plotted, without numbers; maintained: here, within 1%",
)  # fmt: skip
ACCURACY_STAYS = Claim(
    "Scissorhands", "Figure 3 and section 5, downstream tasks",
    "accuracy is maintained until 5x compression (20%)",
    "5 shots, Winogrande and MathQA, OPT-66B; generally with 15% to 30%; plotted, without numbers; "
    "maintained: here, within 1 point",
)  # fmt: skip
FLATTER = Claim("Scissorhands", "Figure 3", "the larger the model, the flatter the trend")
_TABLE_3 = "Table 3 (its compression is not printed; here 3x, as on the same data in Figure 4)"
AS_FULL = Claim(
    "Scissorhands", _TABLE_3,
    "Scissorhands has the perplexity of the full cache at all lengths",
    "OPT-13B on C4, full and Scissorhands: 8.7968, 8.7972 at 256-512 tokens; 9.1017, 9.1011 at "
    "512-1024; 9.3005, 9.3009 at 1024-2048; the same: here, within 1%",
)  # fmt: skip
LOCAL_LOSES = Claim(
    "Scissorhands", _TABLE_3,
    "a local window has a higher perplexity than Scissorhands at all lengths",
    "OPT-13B + Local Window: 81.8297 at 256-512 tokens, 29.3823 at 512-1024, 15.5883 at 1024-2048",
)  # fmt: skip
QUANTISATION = Claim(
    "Scissorhands", "Table 4 (2x compression)",
    "4-bit quantisation on top costs nothing",
    "Hellaswag, Original, Scissorhands, with 4-bit: OPT-6B .702, .706, .704; OPT-13B .720, .720, "
    ".720; nothing: here, at most 1 point or 1% of perplexity",
)  # fmt: skip


def findings(experiment: Experiment) -> Iterator[Finding]:
    """The paper's claims, and what the model shows of each."""
    budgets = experiment.budgets(BUDGETS, OF_LENGTHS, OF_QUANTISATION)
    measured = [experiment.measure(group, POLICIES, budgets) for group in experiment.groups]
    for rows in measured:
        rows.check_use_of_context("local")
    for rows in measured:
        yield from _against_full(PERPLEXITY_STAYS, rows, LEAST_FOR_PERPLEXITY)
    for rows in measured:
        yield from _against_full(ACCURACY_STAYS, rows, LEAST_FOR_ACCURACY)
    yield Finding(FLATTER, f"{CANNOT}one model is asked; run the command with several")
    yield from _by_length(experiment)
    for group in experiment.groups:
        rows = experiment.measure(group, QUANTISED, [OF_QUANTISATION], loop="adaptive")
        first, second = (rows.at(name, OF_QUANTISATION) for name in ("with 4 bits", "Scissorhands"))
        for quantity in (ANSWERS, PERPLEXITY):
            yield judged(QUANTISATION, rows, quantity, first, second, margin=MATCHES)


def _against_full(claim: Claim, rows: Rows, least: float) -> Iterator[Finding]:
    """Every budget, the largest first; the paper claims nothing of those below `least`."""
    quantity = PERPLEXITY if claim is PERPLEXITY_STAYS else ANSWERS
    for budget in reversed(rows.budgets):
        side = rows.at("Scissorhands", budget)
        claimed = rows.share(budget) >= least
        yield judged(claim, rows, quantity, side, FULL, margin=MATCHES, claimed=claimed)


def _by_length(experiment: Experiment) -> Iterator[Finding]:
    measured: list[Rows] = []
    for length in experiment.lengths or LENGTHS:
        for group in experiment.groups:
            rows = experiment.measure_beginnings(group, POLICIES, OF_LENGTHS, length)
            if rows is None:
                yield Finding(
                    AS_FULL, f"{CANNOT}no text has {length} tokens; give --lengths", group.name
                )
                continue
            rows.check_use_of_context("local")
            measured.append(rows)
    for claim in (AS_FULL, LOCAL_LOSES):
        for rows in measured:
            ours, local = (rows.at(name, OF_LENGTHS) for name in ("Scissorhands", "local"))
            other, margin = (FULL, MATCHES) if claim is AS_FULL else (local, 0.0)
            yield judged(claim, rows, PERPLEXITY, ours, other, margin=margin)
