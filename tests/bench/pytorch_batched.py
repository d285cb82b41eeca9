"""Eviction policies in PyTorch as fast as we could make them.

All heads and all budgets of a policy are in one tensor; output products cover blocks of steps.
Arguments and results are those of pytorch_stepwise.py.
"""

import math

import torch

from pytorch_stepwise import Policy, full_attention

BLOCK = 32  # steps per output product


class MaskedReplay:
    """A boolean says who is resident; every step takes a softmax over it."""

    def __init__(self, policy, budgets, heads, tokens):
        self.policy = policy
        self.budgets = budgets
        self.resident = torch.zeros(heads, len(budgets), tokens, dtype=torch.bool)
        self.score = torch.zeros(heads, len(budgets), tokens)
        self.position = torch.arange(tokens)
        self.newest = torch.tensor([policy.num_newest(budget) for budget in budgets])
        self.first = [policy.num_first(budget) for budget in budgets]

    def attend(self, logits, seen):
        self.resident[:, :, seen - 1] = True
        return torch.softmax(logits.masked_fill(~self.resident[:, :, :seen], -math.inf), -1)

    def evict(self, cached, full, seen):
        active = sum(budget < seen for budget in self.budgets)
        if self.policy.name == "sink":
            for index in range(active):  # no search: the oldest that is no sink
                oldest = seen - 1 - (self.budgets[index] - self.first[index])
                self.resident[:, index, oldest] = False
            return
        score = self.score[:, :, :seen]
        attention = full if self.policy.from_full else cached
        if self.policy.name == "tova":
            score = attention
        elif self.policy.decay == 1:
            score += attention
        else:
            score.mul_(self.policy.decay).add_(attention)
        if active:
            stays = self.position[:seen] >= seen - self.newest[:active, None]
            barred = ~self.resident[:, :active, :seen] | stays
            lowest = score[:, :active].masked_fill(barred, math.inf).argmin(-1, keepdim=True)
            self.resident[:, :active].scatter_(2, lowest, False)


def replay_masked(query, key, value, budgets_of):
    full = full_attention(query, key, value)
    results = [
        masked_policy(full, value, Policy(spec), budgets) for spec, budgets in budgets_of.items()
    ]
    return [torch.cat(column, 1) for column in zip(*results)]


def masked_policy(full_attention, value, policy, budgets):
    logits, attention, output = full_attention
    heads, tokens, dim = value.shape
    replay = MaskedReplay(policy, budgets, heads, tokens)
    loss, error = torch.zeros(2, heads, len(budgets), tokens)
    for first in range(0, tokens, BLOCK):
        end = min(first + BLOCK, tokens)
        weights = torch.zeros(heads, len(budgets), end - first, end)
        for step in range(first, end):
            seen = step + 1
            full = attention[:, step, None, :seen]
            cached = replay.attend(logits[:, step, None, :seen], seen)
            weights[:, :, step - first, :seen] = cached
            loss[:, :, step] = 1 - (full * replay.resident[:, :, :seen]).sum(-1)
            replay.evict(cached, full, seen)
        cached = (weights.view(heads, -1, end) @ value[:, :end]).view(*weights.shape[:3], dim)
        expected = output[:, None, first:end]
        error[:, :, first:end] = (cached - expected).norm(dim=-1) / expected.norm(dim=-1)
    return loss.double().mean(-1), error.double().mean(-1)


class SharedReplay:
    """Multiplies the full attention by 1 for resident tokens and by 0 for evicted ones.

    It computes nothing beyond the diagonal.
    """

    def __init__(self, policy, budgets, heads, tokens):
        self.policy = policy
        self.budgets = budgets
        self.newest = torch.tensor([policy.num_newest(budget) for budget in budgets])
        self.position = torch.arange(tokens)
        self.resident = torch.ones(heads, len(budgets), tokens)
        # Infinity for evicted tokens, so that the search for the lowest score passes over them. For
        # resident tokens, the part of the score that differs between budgets: H2O with the scores
        # of the full attention has none.
        self.own = torch.zeros(heads, len(budgets), tokens)
        self.shared = torch.zeros(heads, 1, tokens)
        self.loss = torch.zeros(heads, len(budgets), dtype=torch.double)
        self.error = torch.zeros(heads, len(budgets), dtype=torch.double)

    def attend(self, attention, first, weights):
        """Fills in the attention to resident tokens, not normalised, for a block of steps."""
        if self.policy.name == "sink":
            self._attend_sink(attention, first, weights)
            return
        for row in range(attention.shape[1]):
            seen = first + row + 1
            full = attention[:, row, None, :seen]
            cached = weights[:, :, row, :seen]
            torch.mul(full, self.resident[:, :, :seen], out=cached)
            self._evict(seen, self._scores(full, cached, seen))

    def _attend_sink(self, attention, first, weights):
        steps = torch.arange(first, first + attention.shape[1])
        position = self.position[: attention.shape[2]]
        for index, budget in enumerate(self.budgets):
            num_first = self.policy.num_first(budget)
            oldest = steps[:, None] - (budget - num_first)
            here = (position >= oldest) | (position < num_first)
            torch.mul(attention, here, out=weights[:, index])

    def _scores(self, full, cached, seen):
        own, shared = self.own[:, :, :seen], self.shared[:, :, :seen]
        if self.policy.name == "tova":
            return own + full  # attention over the cache has the same order
        accumulated = shared if self.policy.from_full else own
        if self.policy.decay != 1:
            accumulated *= self.policy.decay
        if not self.policy.from_full:
            return own.addcdiv_(cached, cached.sum(-1, keepdim=True))
        shared += full
        return own + shared

    def _evict(self, seen, score):
        active = sum(budget < seen for budget in self.budgets)
        if active == 0:
            return
        if len(self.budgets) == 1:
            score = score[:, :, : seen - int(self.newest[0])]
        elif self.policy.name == "h2o":
            newest = self.position[:seen] >= seen - self.newest[:active, None]
            score = score[:, :active].masked_fill(newest, math.inf)
        lowest = score[:, :active].argmin(-1, keepdim=True)
        self.resident[:, :active].scatter_(2, lowest, 0.0)
        self.own[:, :active].scatter_(2, lowest, math.inf)

    def measure(self, block, output, value):
        """Adds what a block of steps lost, given the attention to resident tokens."""
        heads, num_budgets, rows, seen = block.shape
        kept = block.sum(-1)
        cached = torch.bmm(block.reshape(heads, -1, seen), value[:, :seen])
        cached = cached.view(heads, num_budgets, rows, -1) / kept[..., None]
        self.loss += (1 - kept).sum(-1)
        self.error += ((cached - output).norm(dim=-1) / output.norm(dim=-1)).sum(-1)


def replay_shared(query, key, value, budgets_of):
    heads, tokens, dim = query.shape
    query, key = query / math.sqrt(dim), key.transpose(1, 2)
    replays = [
        SharedReplay(Policy(spec), budgets, heads, tokens) for spec, budgets in budgets_of.items()
    ]
    # Rows keep what earlier blocks wrote, which ends before the diagonal: the rest stays 0.
    weights = torch.zeros(heads, max(map(len, budgets_of.values())), BLOCK, tokens)
    for first in range(0, tokens, BLOCK):
        end = min(first + BLOCK, tokens)
        rows = end - first
        attention = torch.bmm(query[:, first:end], key[:, :, :end])
        attention[:, :, first:].masked_fill_(
            torch.ones(rows, rows, dtype=torch.bool).triu(1), -math.inf
        )
        attention = torch.softmax(attention, -1)
        output = torch.bmm(attention, value[:, :end])[:, None]
        for replay in replays:
            block = weights[:, : len(replay.budgets), :rows, :end]
            replay.attend(attention, first, block)
            replay.measure(block, output, value)
    return [
        torch.cat([getattr(replay, name) for replay in replays], 1) / tokens
        for name in ("loss", "error")
    ]
