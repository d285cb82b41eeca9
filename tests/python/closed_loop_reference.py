"""A llama that attends to given tokens, one position and head at a time, in float64."""

import copy

import numpy as np
import torch

import kvsim


def logits_of(model, ids: torch.Tensor, visible: list[np.ndarray]) -> np.ndarray:
    """The logits [n, vocabulary] of a llama (or mistral) on ids [1, n].

    `visible` has per layer, KV head, step and token whether the token is attended to: boolean
    [Hkv, n, n].
    """
    model = copy.deepcopy(model).double()
    config, n = model.config, ids.shape[1]
    dim = config.hidden_size // config.num_attention_heads
    group = config.num_attention_heads // config.num_key_value_heads
    with torch.no_grad():
        hidden = model.model.embed_tokens(ids)[0]
        cos, sin = model.model.rotary_emb(hidden[None], torch.arange(n)[None])
        for block, sees in zip(model.model.layers, visible):
            inside = block.self_attn
            normed = block.input_layernorm(hidden)
            query, key, value = (
                projection(normed).view(n, -1, dim)
                for projection in (inside.q_proj, inside.k_proj, inside.v_proj)
            )
            query, key = (_rotated(x, cos[0], sin[0]) for x in (query, key))
            output = torch.zeros(n, config.num_attention_heads, dim, dtype=torch.float64)
            for head in range(config.num_attention_heads):
                for t in range(n):
                    held = np.flatnonzero(sees[head // group, t])
                    weights = torch.softmax(
                        key[held, head // group] @ query[t, head] / dim**0.5, dim=0
                    )
                    output[t, head] = weights @ value[held, head // group]
            hidden = hidden + inside.o_proj(output.flatten(1))
            hidden = hidden + block.mlp(block.post_attention_layernorm(hidden))
        return model.lm_head(model.model.norm(hidden)).numpy()


def _rotated(x, cos, sin):
    """Rotary embedding of [n, heads, dim]: dimensions i and i + dim / 2 are a pair."""
    first, second = x.chunk(2, dim=-1)
    return x * cos[:, None] + torch.cat([-second, first], -1) * sin[:, None]


def causal(n: int, window: int | None = None) -> np.ndarray:
    """Which tokens each step sees without eviction, boolean [n, n]."""
    age = np.arange(n)[:, None] - np.arange(n)
    return (age >= 0) & (age < (window or n + 1))


def held(evicted_after: np.ndarray) -> np.ndarray:
    """Which tokens each step sees that are in the cache or arrive, boolean [Hkv, n, n]."""
    n = evicted_after.shape[-1]
    return causal(n) & (evicted_after[..., None, :] >= np.arange(n)[:, None])


def replayed(trace, policy, budget, **options) -> list[np.ndarray]:
    """evicted_after [Hkv, n] of every layer: one replay for each unit."""
    return [
        np.stack([
            kvsim.replay(
                trace, policy, budget, layer=layer.index, kv_head=head, **options
            ).evicted_after
            for head in layer.kv_heads
        ])
        for layer in trace.sequences[0].layers
    ]  # fmt: skip


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def scores(full: np.ndarray, logits: np.ndarray, ids: np.ndarray, first: int = 0) -> dict:
    """kl_mean, nll_full, nll and top1_agreement, by their definitions."""
    p, q = log_softmax(full.astype(np.float64)), log_softmax(logits.astype(np.float64))
    following = np.arange(first, len(ids) - 1)
    return {
        "kl_mean": float((np.exp(p) * (p - q)).sum(-1)[first:].mean()),
        "nll_full": float(-p[following, ids[following + 1]].mean()),
        "nll": float(-q[following, ids[following + 1]].mean()),
        "top1_agreement": float((p.argmax(-1) == q.argmax(-1))[first:].mean()),
    }
