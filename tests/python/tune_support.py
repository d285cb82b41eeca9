"""Traces to search on, and a short search."""

import numpy as np

import kvsim

SPACE = "h2o:recent={0..0.9};lru;+protect:first={1,2}"


def traces(count=4, tokens=48, **also):
    """Texts of a head that attends to the newest tokens, and to the first one."""
    found = []
    for text in range(count):
        random = np.random.default_rng(text)
        key = random.normal(size=(2, tokens, 8))
        key[:, 0] *= 4
        query = 0.5 * key + random.normal(size=(2, tokens, 8))
        value = random.normal(size=(2, tokens, 8))
        ids = random.integers(9, 99, tokens)
        found.append(
            kvsim.Trace.from_arrays(query, key, value, name=f"t{text}", token_ids=ids, **also)
        )
    return found


def tuned(count=4, **options):
    how = dict(space=SPACE, trials=6, finalists=3, figure_budgets=[], progress=False)
    return kvsim.tune(traces(count), 12, **(how | options))
