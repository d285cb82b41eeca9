"""Generates texts under a policy, for measures of what they say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from .. import closed_loop
from ..errors import UsageError
from .data import Group


def prompts_of(tokenizer: Any, group: Group, tokens: int) -> dict[str, list[int]]:
    """The first `tokens` token ids of every text, by its name.

    Raises UsageError for a text with fewer.
    """
    found = {}
    for text in group.texts:
        ids = list(tokenizer(text.text)["input_ids"])
        if len(ids) < tokens:
            raise UsageError(
                f"--prompt-tokens {tokens}: {text.name} has {len(ids)} tokens; give {len(ids)} or "
                "less"
            )
        found[str(text.name)] = ids[:tokens]
    return found


def continuations(
    model: Any,
    tokenizer: Any,
    prompts: Iterable[list[int]],
    policy: str,
    budget: str,
    new_tokens: int,
    temperature: float,
    seed: int,
) -> list[str]:
    """What the model says after each prompt, in exactly `new_tokens` tokens.

    The prompt is cut to the budget and every later token evicts one; `full` keeps all of them.
    Tokens are sampled with the same seed for every policy; temperature 0 takes the most likely.
    """
    ids = torch.tensor(list(prompts), device=model.device)
    padding = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
    options = dict(
        input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=new_tokens,
        min_new_tokens=new_tokens, num_beams=1, pad_token_id=padding,
        do_sample=temperature > 0, temperature=temperature or None, top_p=None, top_k=None,
    )  # fmt: skip
    torch.manual_seed(seed)
    with torch.inference_mode():
        if policy == "full":
            found = model.generate(**options)
        else:
            with closed_loop.evicting(model, policy=policy, budget=budget, mode="prefill"):
                found = model.generate(**options)
    return [tokenizer.decode(one, skip_special_tokens=True) for one in found[:, ids.shape[1] :]]
