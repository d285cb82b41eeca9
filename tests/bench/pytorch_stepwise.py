"""Eviction policies in PyTorch as one writes them: a loop over steps, all heads in one tensor.

A replay takes queries, keys and values, [heads, tokens, dim], and for each policy's canonical spec
its budgets in ascending order. It returns the attention loss and the output error, each
[heads, configurations], means over steps.
"""

import math

import torch


class Policy:
    """What a spec says: which tokens are never candidates and what the others are scored by."""

    def __init__(self, spec):
        self.name, _, parameters = spec.partition(":")
        self.parameters = dict(setting.split("=") for setting in parameters.split(",") if setting)
        if self.name not in ("h2o", "tova", "sink"):
            raise ValueError(f"the PyTorch baseline has no policy '{self.name}'")
        self.from_full = self.parameters.get("score") == "full"
        self.decay = float(self.parameters.get("decay", 1))

    def num_newest(self, budget):
        if self.name != "h2o":
            return 0
        return max(1, math.floor(float(self.parameters["recent"]) * budget + 0.5))

    def num_first(self, budget):
        return min(int(self.parameters["sinks"]), budget) if self.name == "sink" else 0


def full_attention(query, key, value):
    tokens, dim = query.shape[1:]
    logits = query @ key.transpose(1, 2) / math.sqrt(dim)
    logits.masked_fill_(torch.ones(tokens, tokens, dtype=torch.bool).triu(1), -math.inf)
    attention = torch.softmax(logits, -1)
    return logits, attention, attention @ value


def replay_stepwise(query, key, value, budgets_of):
    full = full_attention(query, key, value)
    results = [
        replay_one(full, value, Policy(spec), budget)
        for spec, budgets in budgets_of.items()
        for budget in budgets
    ]
    return [torch.stack(column, 1) for column in zip(*results)]


def replay_one(full, value, policy, budget):
    logits, attention, output = full
    heads, tokens, _ = logits.shape
    position = torch.arange(tokens)
    resident = torch.zeros(heads, tokens, dtype=torch.bool)
    score = torch.zeros(heads, tokens)
    loss, error = torch.zeros(heads, tokens), torch.zeros(heads, tokens)
    for step in range(tokens):
        seen = step + 1
        resident[:, step] = True
        here = resident[:, :seen]
        cached = torch.softmax(logits[:, step, :seen].masked_fill(~here, -math.inf), -1)
        cached_output = (cached.unsqueeze(1) @ value[:, :seen]).squeeze(1)
        loss[:, step] = 1 - (attention[:, step, :seen] * here).sum(-1)
        full_output = output[:, step]
        error[:, step] = (cached_output - full_output).norm(dim=-1) / full_output.norm(dim=-1)
        seen_attention = attention[:, step, :seen] if policy.from_full else cached
        if policy.name == "h2o":
            score[:, :seen] = policy.decay * score[:, :seen] + seen_attention
        elif policy.name == "tova":
            score[:, :seen] = seen_attention
        else:
            score[:, step] = step
        if seen > budget:
            is_newest = position[:seen] >= seen - policy.num_newest(budget)
            is_first = position[:seen] < policy.num_first(budget)
            candidates = score[:, :seen].masked_fill(~here | is_newest | is_first, math.inf)
            lowest = candidates.argmin(-1, keepdim=True)
            resident.scatter_(1, lowest, False)
    return loss.double().mean(1), error.double().mean(1)
