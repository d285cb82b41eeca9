"""The configuration of pages, for a server that evicts whole ones."""

from __future__ import annotations

import json

from ..errors import UsageError
from .file import Recipe


def page_configuration(recipe: Recipe) -> str:
    """JSON: `page_size` in tokens, the budget per KV head in pages or as a share of the text, the
    policy. Raises UsageError for a recipe without pages, and for a budget in bytes."""
    if recipe.page == 1:
        raise UsageError(
            f"recipe {recipe.path}: it has no pages; search with page=16 or another size"
        )
    fields: dict[str, object] = {"page_size": recipe.page}
    text = recipe.budget
    if text.endswith("%"):
        fields["budget_share"] = float(text[:-1]) / 100
    elif text.isdigit():
        fields["budget_pages"] = int(text) // recipe.page
    elif text.endswith("B"):
        raise UsageError(
            f"recipe {recipe.path}: how many pages {text} are depends on the model; search at a "
            "budget in tokens or a share"
        )
    else:
        fields["budget_share"] = float(text)
    fields |= {
        "policy": recipe.policy,
        "mode": recipe.mode,
        "eviction_interval": recipe.eviction_interval,
    }
    return json.dumps(fields, indent=2) + "\n"
