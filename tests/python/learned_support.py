"""Files of trained scorers, and the policy that they are to be, written to be read."""

import json

import numpy as np

import kvsim

FIXED = ["key", "value", "key_norm", "value_norm", "key_like_mean", "first", "position"]
FIXED += ["punctuation", "special"]
CHANGING = ["now", "mean", "largest", "age", "decayed:0.9", "neighbours:0.9", "decayed:0.98"]
MODEL = {"layers": 4, "kv_heads": 4, "head_dim": 16, "value_dim": 16}  # of the sample


def header_of(features, kind="linear", scope="model", keys="recorded", **others):
    named = {"version": 1, "kind": kind, "scope": scope, "keys": keys, "features": features}
    return named | MODEL | others


def arrays_of(header, seed=0, units=6, depth=3):
    """Random weights, of which some are of every sign and size that matters."""
    random = np.random.default_rng(seed)
    layers, heads = header["layers"], header["kv_heads"]
    count = {"model": 1, "layer": layers, "head": layers * heads}[header["scope"]]
    columns = sum(
        header.get({"key": "head_dim", "value": "value_dim"}.get(name), 1)
        for name in header["features"]
    )
    nodes = 2**depth - 1

    def normal(*shape):
        return random.normal(size=shape).astype(np.float32)

    if header["kind"] == "linear":
        return {"weights": normal(count, columns), "bias": normal(count)}
    if header["kind"] == "mlp":
        return {
            "hidden_weights": normal(count, units, columns),
            "hidden_bias": normal(count, units),
            "output_weights": normal(count, units),
            "output_bias": normal(count),
        }
    return {
        "split_feature": random.integers(columns, size=(count, units, nodes), dtype=np.int32),
        "split_threshold": random.uniform(size=(count, units, nodes)).astype(np.float32),
        "leaf": normal(count, units, nodes + 1),
        "bias": normal(count),
    }


def write(path, header, arrays, save=np.savez):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    save(path, header=np.frombuffer(text, np.uint8), **arrays)
    return path


def score(header, arrays, index, x):
    """The scores of tokens with the features x, [tokens, F]."""
    of = {name: array[index].astype(np.float64) for name, array in arrays.items()}
    if header["kind"] == "linear":
        return of["bias"] + x @ of["weights"]
    if header["kind"] == "mlp":
        hidden = np.maximum(0, of["hidden_bias"] + x @ of["hidden_weights"].T)
        return of["output_bias"] + hidden @ of["output_weights"]
    total = np.full(len(x), of["bias"])
    trees = zip(arrays["split_feature"][index], of["split_threshold"], of["leaf"], strict=True)
    for feature, threshold, leaf in trees:
        node = np.zeros(len(x), int)
        while node[0] < len(feature):
            is_left = x[np.arange(len(x)), feature[node]] <= threshold[node]
            node = 2 * node + np.where(is_left, 1, 2)
        total += leaf[node - len(feature)]
    return total


def unrotated(vector, position, rotation):
    """`vector` rotated back from its position to 0."""
    pairs = len(rotation.inverse_frequency)
    angle = -position * np.array(rotation.inverse_frequency)
    back = vector.astype(np.float64)
    halves = slice(0, pairs), slice(pairs, 2 * pairs)
    if rotation.interleaved:
        halves = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
    a, b = (back[half].copy() for half in halves)
    back[halves[0]] = a * np.cos(angle) - b * np.sin(angle)
    back[halves[1]] = b * np.cos(angle) + a * np.sin(angle)
    return back


def cosine(a, b):
    return a @ b / np.sqrt((a @ a) * (b @ b))


def reference_of(header, arrays, index, tokens):
    """The class of a policy that scores `tokens` tokens, at most, as scorer `index` does."""

    class Reference(kvsim.Policy):
        name = "learned-reference"
        rules = kvsim.Rules(
            protect_first=4,
            protect_newest=1,
            sees_values=True,
            sees_kinds=True,
            sees_rotation=header["keys"] == "unrotated",
        )

        def __init__(self, budget, seed=0):
            self.fixed = []
            self.keys = []
            self.sum = np.zeros(tokens)
            self.largest = np.zeros(tokens)
            self.decayed = {}

        def fixed_features(self, step):
            t = step.index
            key = step.keys[-1].astype(np.float64)
            if header["keys"] == "unrotated":
                key = unrotated(step.keys[-1], t, self.rotation)
            self.keys.append(key)
            value = step.values[-1].astype(np.float64)
            return {
                "key": key,
                "value": value,
                "key_norm": np.sqrt(key @ key),
                "value_norm": np.sqrt(value @ value),
                "key_like_mean": 1 if t == 0 else cosine(key, np.mean(self.keys, 0)),
                "first": float(t < 4),
                "position": np.log(1 + t),
                "punctuation": float(step.kinds[-1] == kvsim.TokenKind.PUNCTUATION),
                "special": float(step.kinds[-1] == kvsim.TokenKind.SPECIAL),
            }

        def column(self, name, step):
            """[tokens in the cache, columns of the feature]"""
            held, age = step.tokens, step.index - step.tokens
            kind, _, rate = name.partition(":")
            if kind in self.fixed[0]:
                return np.stack([np.atleast_1d(self.fixed[j][kind]) for j in held])
            if kind == "age":
                return np.log(1 + age)[:, None]
            if kind in ("decayed", "neighbours"):
                mean = np.full(tokens + 2, np.nan)  # of token j at j + 1
                mean[held + 1] = self.decayed[name][held] / (1 - float(rate) ** (age + 1))
                x = mean[held + 1]
                if kind == "neighbours":
                    around = np.stack([mean[held], mean[held + 2]])
                    count = (~np.isnan(around)).sum(0)
                    x = np.where(count > 0, np.nansum(around, 0) / np.maximum(count, 1), 0)
            else:
                means = self.sum[held] / (age + 1)
                x = {"now": step.attention, "mean": means, "largest": self.largest[held]}[kind]
            return x.astype(np.float64)[:, None] ** (1 / 8)

        def update(self, step, scores):
            held, p = step.tokens, step.attention
            self.fixed.append(self.fixed_features(step))
            self.sum[held] += p
            self.largest[held] = np.maximum(self.largest[held], p)
            for name in header["features"]:
                if ":" in name:
                    rate = float(name.partition(":")[2])
                    decayed = self.decayed.setdefault(name, np.zeros(tokens))
                    decayed[held] = rate * decayed[held] + (1 - rate) * p
            x = np.hstack([self.column(name, step) for name in header["features"]])
            scores[:] = score(header, arrays, index, x)

    return Reference
