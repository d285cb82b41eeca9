"""What the numbers of a page do not say: they are open loop, and the running model decides."""

from .numbers.frames import Comparison

_PLAIN = "At one budget no number of a replay reliably ranks policies as a running model does"
_CALIBRATED = (
    "The calibrated KL is fitted to the running model on other texts: it ranks policies better "
    "than the other numbers of a replay do, and not as surely as the model"
)
OPEN_LOOP = (
    "These numbers are open loop: pages are chosen by the queries of a model that attended to all."
)
CLOSED_LOOP = (
    "These numbers are closed loop: the model runs with the policy and answers from what is left "
    "in its cache."
)


def open_loop(comparison: Comparison) -> str:
    """What the numbers of the page do not say, and what does."""
    says = _CALIBRATED if comparison.ranking.measure == "calibrated_kl" else _PLAIN
    return (
        f"The numbers of the replay are open loop. {says} (sim/results/comparisons.md). "
        "python -m kvsim.evaluate runs the policies in your model, which decides."
    )
