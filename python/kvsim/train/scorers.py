"""Fits scorers to samples with scikit-learn, in raw units of the features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from .samples import Samples

Arrays = dict[str, np.ndarray]

PENALTY = 1e-3
"""Of the squared weights of standardised features, per sample."""
UNITS = 16
"""Hidden units of an mlp."""
TREES, DEPTH = 50, 4
FEWEST = 100
"""Samples of an mlp: a tenth says when to stop."""


def require_library() -> None:
    try:
        import sklearn  # noqa: F401
    except ImportError:
        raise UsageError("training needs scikit-learn; pip install 'kvsim[train]'") from None


def fitted(kind: str, samples: Samples, seed: int) -> Arrays:
    """The arrays of one scorer, without the axis of the scorers: policies/learned/README.md."""
    fit: Callable[..., Arrays] = {"linear": _linear, "mlp": _mlp, "trees": _trees}[kind]
    return fit(samples, seed)


def scores(kind: str, scorer: Arrays, x: np.ndarray) -> np.ndarray:
    """What the engine makes of the features x, [tokens, columns]: one score per token."""
    of = {name: array.astype(np.float64) for name, array in scorer.items()}
    if kind == "linear":
        return of["bias"] + x @ of["weights"]
    if kind == "mlp":
        hidden = np.maximum(0, of["hidden_bias"] + x @ of["hidden_weights"].T)
        return of["output_bias"] + hidden @ of["output_weights"]
    total, rows = np.full(len(x), of["bias"]), np.arange(len(x))
    trees = zip(scorer["split_feature"], of["split_threshold"], of["leaf"], strict=True)
    for feature, threshold, leaf in trees:
        node = np.zeros(len(x), int)
        for _ in range(DEPTH):
            is_left = x[rows, feature[node]] <= threshold[node]
            node = 2 * node + np.where(is_left, 1, 2)
        total += leaf[node - len(feature)]
    return total


def _standardised(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The features with mean 0 and spread 1, and both as they were."""
    mean, spread = x.mean(axis=0, dtype=np.float64), x.std(axis=0, dtype=np.float64)
    spread[spread < 1e-6 * np.maximum(1, np.abs(mean))] = np.inf  # a constant says nothing
    return (x - mean) / spread, mean, spread


def _linear(samples: Samples, seed: int) -> Arrays:
    from sklearn.linear_model import Ridge

    z, mean, spread = _standardised(samples.features)
    fit = Ridge(alpha=PENALTY * len(z)).fit(z, samples.targets)
    weights = fit.coef_ / spread
    return _single(weights=weights, bias=fit.intercept_ - weights @ mean)


def _mlp(samples: Samples, seed: int) -> Arrays:
    from sklearn.neural_network import MLPRegressor

    z, mean, spread = _standardised(samples.features)
    y = samples.targets
    if len(y) < FEWEST:
        raise DataError(
            f"expected at least {FEWEST} samples for a network, found {len(y)}; take longer texts, "
            "or kind=linear"
        )
    scale = max(float(y.std()), 1e-6)
    network = MLPRegressor(
        hidden_layer_sizes=(UNITS,), alpha=PENALTY, tol=1e-3, early_stopping=True, random_state=seed
    )
    network.fit(z, (y - y.mean()) / scale)
    (first, last), (hidden, out) = network.coefs_, network.intercepts_
    weights = (first / spread[:, None]).T
    return _single(
        hidden_weights=weights,
        hidden_bias=hidden - weights @ mean,
        output_weights=scale * last[:, 0],
        output_bias=y.mean() + scale * out[0],
    )


def _trees(samples: Samples, seed: int) -> Arrays:
    from sklearn.ensemble import HistGradientBoostingRegressor

    forest = HistGradientBoostingRegressor(
        max_iter=TREES, max_depth=DEPTH, learning_rate=0.2, early_stopping=False, random_state=seed
    ).fit(samples.features, samples.targets)
    # scikit-learn has no public view of these trees.
    trees = [_complete(predictor.nodes) for (predictor,) in forest._predictors]
    trees += [_stump()] * (TREES - len(trees))
    feature, threshold, leaf = (np.stack(parts) for parts in zip(*trees, strict=True))
    return {
        "split_feature": feature,
        **_single(split_threshold=threshold, leaf=leaf, bias=forest._baseline_prediction.item()),
    }


def _complete(nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A tree of scikit-learn as a complete one: a leaf that comes early is repeated below it."""
    feature, threshold, leaf = _stump()

    def fill(place: int, node: Any) -> None:
        if place >= len(feature):
            leaf[place - len(feature)] = node["value"]
            return
        if node["is_leaf"]:
            fill(2 * place + 1, node)
            fill(2 * place + 2, node)
            return
        feature[place], threshold[place] = node["feature_idx"], node["num_threshold"]
        fill(2 * place + 1, nodes[node["left"]])
        fill(2 * place + 2, nodes[node["right"]])

    fill(0, nodes[0])
    return feature, threshold, leaf


def _stump() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A tree that adds nothing."""
    inner = 2**DEPTH - 1
    return np.zeros(inner, np.int32), np.full(inner, np.inf), np.zeros(inner + 1)


def _single(**arrays: Any) -> Arrays:
    return {name: np.asarray(array, np.float32) for name, array in arrays.items()}
