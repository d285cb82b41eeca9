"""What the curves of the report show: the file, title, axis and caption of each measure.

`{better}` in a caption stands for which values are better, `{calibration}` for the file with the
rows of the running model.
"""

ERRORS = {
    "calibrated_kl": (
        "calibrated-kl",
        "Calibrated KL",
        "calibrated KL (nats per token)",
        "The projected errors of the layers, weighted so that they sum to the KL of the running "
        "model: {better}. The weights of a text are fitted to what the model lost on other texts, "
        "in {calibration}.",
    ),
    "projected_error": (
        "projected-error",
        "Projected error",
        "projected error (squared norm)",
        "What the residual stream misses: the squared norm of the change of a layer's attention "
        "output, all heads together and projected by W_O, mean over steps, sum over layers: "
        "{better}.",
    ),
    "output_error_sq": (
        "squared-error",
        "Squared output error",
        "squared error (squared norm)",
        "The squared distance between the attention outputs of the full and the evicting cache, "
        "not relative to the full one: {better}.",
    ),
    "predicted_kl": (
        "predicted-kl",
        "Predicted KL",
        "predicted KL (nats per token)",
        "To second order, how far the model's predictions move: half the mean square of the "
        "product of each head's change of output with the gradient of a log-probability that the "
        "model itself drew, summed over heads and layers: {better}.",
    ),
}
SHARES = {
    "attention_recall": (
        "recall",
        "Attention recall",
        "attention recall (share of attention, 0–1)",
        "The share of the full attention that falls on tokens in the cache: {better}. Good "
        "for what a policy keeps of what the optimum could and for bounds, not for ranking "
        "policies at one budget; how far it agrees with running models: "
        "sim/results/comparisons.md.",
    ),
    "miss_rate": (
        "miss-rate",
        "Miss rate",
        "miss rate (share of pivotal tokens, 0–1)",
        "Of the pivotal tokens, those with more than an even share of a step's attention, the "
        "share that is not in the cache: {better}.",
    ),
    "output_error_mean": (
        "output-error",
        "Output error",
        "output error (relative to the full output)",
        "The distance between the attention outputs of the full and the evicting cache, relative "
        "to the full one: {better}. Good for how far off the output of a head is, not for "
        "ranking policies at one budget: a head that writes little counts as much as any. How far "
        "it agrees with running models: sim/results/comparisons.md.",
    ),
}
