"""A small trace and policies for sweeps in executors."""

import os
import time
from pathlib import Path

import numpy as np
import pandas as pd

import kvsim

LAYERS, HEADS = 4, 2


class Slow(kvsim.Policy):
    """A tenth of a second for a unit, so that something can happen meanwhile."""

    def update(self, step, scores):
        time.sleep(0.002)
        scores[:] = step.tokens % 7


class Deadly(kvsim.Policy):
    """Ends the process on a unit whose first key is marked, after a line in the file `deaths`."""

    deaths = ""

    def update(self, step, scores):
        scores[:] = step.tokens % 5
        if step.keys[0, 0] == 1000:
            with Path(self.deaths).open("a") as file:
                file.write("died\n")
            os._exit(3)


class Held(kvsim.Policy):
    """Does not end a unit whose first key is marked before there is the file RELEASED."""

    def update(self, step, scores):
        scores[:] = step.tokens % 3
        while step.keys[0, 0] == 1000 and not Path(os.environ["RELEASED"]).exists():
            time.sleep(0.01)


def trace(*marked, tokens=48, seed=5):
    """In memory; `marked` units (layer, KV head) are deadly, or held."""
    random = np.random.default_rng(seed)
    layers = {}
    for layer in range(LAYERS):
        query, key, value = random.normal(size=(3, HEADS, tokens, 4))
        for head in range(HEADS):
            key[head, 0, 0] = 1000 if (layer, head) in marked else 1
        layers[layer] = query, key, value
    return kvsim.Trace.from_arrays(layers)


def same(left, right):
    pd.testing.assert_frame_equal(left, right, check_exact=True)
