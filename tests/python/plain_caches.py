"""Eviction in plain words, written from the definitions: the reference of the closed loop.

One object per KV head, one call per step, float64. It shares no code with the engine.
"""

import math

import numpy as np


class PlainHead:
    """A KV head under window, h2o, tova or lru; see `step`."""

    def __init__(self, policy, budget, scale, mode="stream", interval=1, prompt_length=0):
        self.policy, self.budget, self.scale = policy, budget, scale
        self.prefill, self.interval, self.prompt_length = mode == "prefill", interval, prompt_length
        self.recent = max(1, math.floor(0.5 * budget + 0.5))
        self.keys, self.values, self.tokens = [], [], []
        self.scores = {}
        self.left = {}  # token: the step after which it left

    @property
    def num_tokens(self):
        return len(self.keys)

    def step(self, query, key, value):
        """Queries [G, d] of the group, a key, a value; the outputs [G, dv] of the query heads."""
        t = self.num_tokens
        self.keys.append(np.asarray(key, np.float64))
        self.values.append(np.asarray(value, np.float64))
        self.tokens.append(t)
        logits = self.scale * np.asarray(query, np.float64) @ self._of(self.keys).T
        weights = np.exp(logits - logits.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        output = weights @ self._of(self.values)
        self._score(t, weights.mean(0))
        if self._overflows(t):
            while len(self.tokens) > self.budget:
                self._evict(t)
        return output

    def evicted_after(self):
        n = self.num_tokens
        return np.array([self.left.get(token, n) for token in range(n)], np.int32)

    def _of(self, rows):
        return np.stack([rows[token] for token in self.tokens])

    def _score(self, t, attention):
        for token, p in zip(self.tokens, attention):
            if self.policy == "window":
                self.scores[token] = token
            elif self.policy == "h2o":
                self.scores[token] = self.scores.get(token, 0) + p
            elif self.policy == "tova":
                self.scores[token] = p
            elif self.policy == "lru":
                if p > 1 / len(self.tokens) or token == t:
                    self.scores[token] = t
            else:
                raise AssertionError(self.policy)

    def _overflows(self, t):
        if self.prefill and t < self.prompt_length - 1:
            return False
        if self.prefill and t == self.prompt_length - 1:
            return len(self.tokens) > self.budget
        if self.interval == "never":
            return False
        return len(self.tokens) > self.budget + self.interval - 1

    def _evict(self, t):
        candidates = self.tokens
        if self.policy == "h2o":
            candidates = self.tokens[: len(self.tokens) - self.recent]
        victim = min(candidates, key=lambda token: (self.scores[token], token))
        self.tokens.remove(victim)
        self.left[victim] = t


class PlainCaches:
    """The caches of all layers and heads of a sequence, for `plain_loop`."""

    def __init__(self, policy, budget, layers, query_heads, kv_heads, scale, **how):
        self.group = query_heads // kv_heads
        self.heads = [
            [PlainHead(policy, budget, scale, **how) for _ in range(kv_heads)]
            for _ in range(layers)
        ]

    def attend(self, layer, query, key, value):
        """The outputs [Hq, dv] of a step: query [Hq, d], key [Hkv, d], value [Hkv, dv]."""
        outputs = []
        for index, head in enumerate(self.heads[layer]):
            group = slice(index * self.group, (index + 1) * self.group)
            outputs.append(head.step(query[group], key[index], value[index]))
        return np.concatenate(outputs)

    def evicted_after(self, layer):
        return np.stack([head.evicted_after() for head in self.heads[layer]])
