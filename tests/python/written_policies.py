"""Policies of the engine, written in Python as one would, for tests to compare."""

import numba
import numpy as np

import kvsim


class H2O(kvsim.Policy):
    """Recent tokens and those with the most accumulated attention."""

    name = "written-h2o"

    def __init__(self, budget, seed=0, recent=0.5):
        self.rules = kvsim.Rules(protect_newest=int(np.floor(recent * budget + 0.5)))

    def update(self, step, scores):
        scores += step.attention


class CompiledH2O(H2O):
    name = "compiled-h2o"

    @numba.cfunc(kvsim.update_signature)
    def update(step, scores, state):
        seen = numba.carray(step, 1)[0]
        total = numba.carray(scores, seen.num_tokens)
        attention = numba.carray(seen.attention, seen.num_tokens)
        for slot in range(seen.num_tokens):
            total[slot] += attention[slot]
        return 0


class Window(kvsim.Policy):
    name = "written-window"
    nests = True

    def update(self, step, scores):
        scores[-1] = step.index


class Tova(kvsim.Policy):
    name = "written-tova"

    def __init__(self, budget, seed=0, scope="head", full=False):
        self.rules = kvsim.Rules(scope=scope, sees_full_attention=full)
        self.full = full

    def update(self, step, scores):
        scores[:] = step.full_attention if self.full else step.attention


class NestedTova(kvsim.Policy):
    name = "nested-tova"
    nests = True
    rules = kvsim.Rules(sees_full_attention=True)

    def update(self, step, scores):
        scores[:] = step.full_attention


class TopK(kvsim.Policy):
    name = "written-topk"
    rules = kvsim.Rules(selects=True, sees_full_attention=True)

    def update(self, step, scores):
        scores[:] = step.attention


class KNorm(kvsim.Policy):
    name = "written-knorm"

    def update(self, step, scores):
        scores[:] = -np.linalg.norm(step.keys.astype(float), axis=1)


class LastQuery(kvsim.Policy):
    """Scores the prompt by its last query alone, and its values by their length."""

    name = "last-query"
    rules = kvsim.Rules(prompt_only=True, sees_queries=True, sees_values=True)

    def update(self, step, scores):
        logits = self.scale * (step.queries @ step.keys.T)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        scores[:] = weights.mean(axis=0) * np.linalg.norm(step.values, axis=1)
