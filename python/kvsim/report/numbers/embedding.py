"""Puts vectors on a plane: t-SNE where scikit-learn is there, else principal components."""

from collections.abc import Callable

import numpy as np

TSNE, PCA = "t-SNE", "PCA"
_PERPLEXITY = 30.0  # neighbours that t-SNE counts, as scikit-learn's default


def plane() -> tuple[str, Callable[[np.ndarray], np.ndarray]]:
    """The name of the method, and what maps points [n, d] to places [n, 2], always the same."""
    try:
        from sklearn.manifold import TSNE as Tsne
    except ImportError:
        return PCA, principal_components

    def embed(points: np.ndarray) -> np.ndarray:
        perplexity = min(_PERPLEXITY, (len(points) - 1) / 3)
        if perplexity < 1:  # fewer than four points have no neighbourhoods
            return principal_components(points)
        method = Tsne(n_components=2, perplexity=perplexity, init="pca", random_state=0)
        return np.asarray(method.fit_transform(points), dtype=float)

    return TSNE, embed


def principal_components(points: np.ndarray) -> np.ndarray:
    """The first two, [n, 2]; 0 where the points [n, d] have fewer.

    The sign is such that the largest coefficient of a component is positive.
    """
    centred = points.astype(float) - points.mean(axis=0, dtype=float)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    places = np.zeros((len(points), 2))
    for axis, direction in enumerate(directions[:2]):
        sign = 1 if direction[np.abs(direction).argmax()] >= 0 else -1
        places[:, axis] = sign * (centred @ direction)
    return places


def greedy_centres(points: np.ndarray, count: int) -> np.ndarray:
    """The indices of the first `count` centres of greedy k-centre, as the analysis `clusters`.

    The first is point 0, the next the point farthest from all before, the first of several (SubGen
    section 3.2, after Gonzalez 1985).
    """
    points = points.astype(float)
    nearest = np.full(len(points), np.inf)
    centres = [0]
    while True:
        distance = ((points - points[centres[-1]]) ** 2).sum(axis=1)
        nearest = np.minimum(nearest, distance)
        if len(centres) == min(count, len(points)):
            return np.array(centres)
        centres.append(int(nearest.argmax()))
