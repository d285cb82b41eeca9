"""A Llama that reads a text token by token with evicting caches, in plain PyTorch and float64.

It shares no code with kvsim or transformers; the weights are those of a model of transformers.
"""

import numpy as np
import torch
from torch.nn.functional import silu

from plain_caches import PlainCaches


def plain_loop(model, ids, policy, budget, **how):
    """The logits [n, vocabulary] and the caches after all tokens of `ids` [n]."""
    config = model.config
    weights = {name: weight.double() for name, weight in model.state_dict().items()}
    dim = weights["model.layers.0.self_attn.q_proj.weight"].shape[0] // config.num_attention_heads
    layers = config.num_hidden_layers
    heads = config.num_attention_heads, config.num_key_value_heads
    caches = PlainCaches(policy, budget, layers, *heads, dim**-0.5, **how)
    logits = []
    for t, token in enumerate(ids.tolist()):
        x = weights["model.embed_tokens.weight"][token]
        for layer in range(layers):
            w = _of_layer(weights, layer)
            y = _normed(x, w("input_layernorm"), config)
            query, key, value = ((w(f"self_attn.{name}_proj") @ y).view(-1, dim) for name in "qkv")
            query, key = _rotated(query, t, config), _rotated(key, t, config)
            attended = caches.attend(layer, query.numpy(), key.numpy(), value.numpy())
            x = x + w("self_attn.o_proj") @ torch.from_numpy(attended.ravel())
            y = _normed(x, w("post_attention_layernorm"), config)
            inner = silu(w("mlp.gate_proj") @ y) * (w("mlp.up_proj") @ y)
            x = x + w("mlp.down_proj") @ inner
        logits.append(weights["lm_head.weight"] @ _normed(x, weights["model.norm.weight"], config))
    return torch.stack(logits), caches


def _of_layer(weights, layer):
    return lambda name: weights[f"model.layers.{layer}.{name}.weight"]


def _normed(x, weight, config):
    return x * (x.square().mean() + config.rms_norm_eps).rsqrt() * weight


def _rotated(rows, position, config):
    half = rows.shape[1] // 2
    theta = config.rope_parameters["rope_theta"]
    angle = position * torch.tensor(theta ** (-np.arange(half) / half))
    first, second = rows[:, :half], rows[:, half:]
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=1)
