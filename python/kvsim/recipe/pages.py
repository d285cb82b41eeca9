"""The configuration of pages, for a server that evicts whole ones."""

from __future__ import annotations

import json

from ..errors import UsageError
from .file import Recipe


def page_configuration(recipe: Recipe) -> str:
    """JSON: `page_size` in tokens, the budget per KV head in pages or as a share of the text, how
    the scores of tokens make that of their page, `page_score`: mean, max or min, and the policy.

    Raises UsageError for a recipe without pages, and for a budget in bytes or in parts of a page.
    """
    if recipe.page == 1:
        raise UsageError(
            f"recipe {recipe.path}: it has no pages; search with page=16 or another size"
        )
    fields: dict[str, object] = {"page_size": recipe.page}
    share, tokens = recipe.amount
    if share is not None:
        fields["budget_share"] = share
    elif tokens is None:
        raise UsageError(
            f"recipe {recipe.path}: how many pages {recipe.budget} are depends on the model; "
            "search at a budget in tokens or a share"
        )
    elif tokens % recipe.page != 0:
        raise UsageError(
            f"recipe {recipe.path}: budget: expected whole pages of {recipe.page} tokens, found "
            f"{tokens} tokens; search at a multiple of {recipe.page}"
        )
    else:
        fields["budget_pages"] = tokens // recipe.page
    fields |= {
        "page_score": recipe.page_score,
        "policy": recipe.policy,
        "mode": recipe.mode,
        "eviction_interval": recipe.eviction_interval,
    }
    return json.dumps(fields, indent=2) + "\n"
