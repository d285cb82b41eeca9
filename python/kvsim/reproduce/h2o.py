"""H2O (Zhang et al., 2023): accuracy against budget, and the diversity of generated text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .claims import CANNOT, Claim, Finding, judged
from .rows import ANSWERS, FULL, NLL

if TYPE_CHECKING:
    from .experiment import Experiment
    from .rows import Rows

BUDGETS = ("5%", "10%", "20%", "40%", "60%")
POLICIES = {"local": "window", "H2 alone": "h2o:recent=0", "H2O": "h2o"}
OF_TABLES = "20%"
COLLAPSED = "60%"
MATCHES = 0.01  # section 5.3, Q2: "difference less than 1.00%"

AT_EVERY_BUDGET = Claim(
    "H2O", "Figure 4 and section 5.1 (1)",
    "H2O improves on local consistently, with budgets from 4% to 100%",
    "at 20%, Table 10, OPT-30B, 5-shots, local and H2O: OpenBookQA 25.20, 43.00; "
    "COPA 48.00, 84.00; MathQA 20.87, 26.87",
)  # fmt: skip
MATCHES_FULL = Claim(
    "H2O", "Figure 4, sections 5.1 (2) and 5.3 Q2",
    "at 20%, H2O matches the full cache: difference less than 1.00%",
    "Table 10, OPT-30B, 5-shots, full and H2O: OpenBookQA 43.20, 43.00; COPA 85.00, 84.00; "
    "MathQA 26.23, 26.87; more in Table 9: Winogrande, OPT-30B 70.24, 69.06",
)  # fmt: skip
COLLAPSES = Claim(
    "H2O", "Figure 4 and section 5.1, Analysis",
    "local collapses at 60%, where H2O still matches at 20%",
    "named for LLaMA-13B on XSUM and LLaMA-7B on CNN/Daily Mail, without numbers",
)  # fmt: skip
_TABLE_9 = "Table 9 (its cells equal those of Table 2, at 20%)"
H2_ALONE = Claim(
    "H2O", _TABLE_9, "H2 alone is better than local alone",
    "columns w. Local and w. H2, OPT-13B, then OPT-30B: PiQA 54.62, 76.12 and 55.82, 67.25; "
    "OpenBookQA 25.60, 30.40 and 25.20, 26.60; MathQA 22.04, 23.82 and 20.87, 21.98; "
    "Winogrande 49.96, 51.85 and, the reverse, 49.17, 47.36",
)  # fmt: skip
BOTH = Claim(
    "H2O", _TABLE_9, "both together are better than either alone",
    "columns w. Local, w. H2 and w. Local + H2, OPT-30B: PiQA 55.82, 67.25, 78.45; "
    "OpenBookQA 25.20, 26.60, 43.00; MathQA 20.87, 21.98, 26.87; Winogrande 49.17, 47.36, 69.06",
)  # fmt: skip
SHOTS = Claim(
    "H2O", "Table 10 and Figure 8, with 20%",
    "whatever the number of shots, H2O matches the full cache and local does not",
    "OPT-30B, full, local, H2O: OpenBookQA 43.20, 25.20, 43.00 with 5 shots and 43.00, 26.60, "
    "42.80 with 10; COPA 85.00, 48.00, 84.00 and 86.00, 60.00, 85.00; MathQA 26.23, 20.87, 26.87 "
    "and 26.67, 21.11, 26.47; Figure 8 has 0 and 1 shots, where some tasks need 30-40%",
)  # fmt: skip
DIVERSITY = Claim(
    "H2O", "C.1 (20% in its Figure 7)",
    "texts generated with H2O are a little more diverse than with the full cache, with local less "
    "so: Self-BLEU, lower is more diverse",
    "LLaMA-7B, 100 prompts of XSUM: full 0.0057, H2O 0.0051, local 0.0436; how it decodes is not "
    "said, here it samples",
)  # fmt: skip


def findings(experiment: Experiment) -> Iterator[Finding]:
    """The paper's claims, and what the model shows of each."""
    budgets = experiment.budgets(BUDGETS, OF_TABLES, COLLAPSED)
    measured = [experiment.measure(group, POLICIES, budgets) for group in experiment.groups]
    for rows in measured:
        rows.check_use_of_context("local")
    for claim in (AT_EVERY_BUDGET, MATCHES_FULL, COLLAPSES, H2_ALONE, BOTH):
        for rows in measured:
            yield from _of_claim(claim, rows)
    yield from _shots(measured)
    yield from experiment.diversity(
        DIVERSITY,
        {"full": "full", "H2O": "h2o", "local": "window"},
        [("H2O", "full"), ("full", "local")],
        OF_TABLES,
    )


def _of_claim(claim: Claim, rows: Rows) -> Iterator[Finding]:
    local, alone, both = (rows.at(name, OF_TABLES) for name in POLICIES)
    for quantity in (ANSWERS, NLL):
        if claim is AT_EVERY_BUDGET:
            for budget in rows.budgets:
                yield judged(
                    claim, rows, quantity, rows.at("H2O", budget), rows.at("local", budget)
                )
        elif claim is MATCHES_FULL:
            yield judged(claim, rows, quantity, both, FULL, margin=MATCHES)
        elif claim is COLLAPSES:
            yield judged(claim, rows, quantity, both, rows.at("local", COLLAPSED))
        elif claim is H2_ALONE:
            yield judged(claim, rows, quantity, alone, local)
        elif claim is BOTH:
            yield judged(claim, rows, quantity, both, local)
            yield judged(claim, rows, quantity, both, alone)


def _shots(measured: list[Rows]) -> Iterator[Finding]:
    if len(measured) < 2:
        yield Finding(
            SHOTS,
            f"{CANNOT}the texts are of one kind; give --texts for each length or number of shots",
        )
        return
    for rows in measured:
        local, both = (rows.at(name, OF_TABLES) for name in ("local", "H2O"))
        yield judged(SHOTS, rows, ANSWERS, both, FULL, margin=MATCHES)
        yield judged(SHOTS, rows, ANSWERS, both, local)
