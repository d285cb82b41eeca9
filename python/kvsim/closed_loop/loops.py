"""What a loop is given and what it returns."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import torch

    from .. import _engine
    from ..model.spans import Span


@dataclass(frozen=True)
class Job:
    """A text as the model reads it, n tokens."""

    name: str  # of the sequence
    text_id: str  # SHA-256 of the ids
    ids: np.ndarray  # int32 [n]
    prompt_length: int  # in tokens; 0: it has no prompt
    spans: tuple[Span, ...]  # in tokens
    source: str  # what to call it in an error
    is_named: bool = False  # by the user
    token_text: tuple[str, ...] | None = None

    @property
    def spans_id(self) -> str | None:
        """SHA-256 of the spans; None without any."""
        if not self.spans:
            return None
        return hashlib.sha256(json.dumps([list(span) for span in self.spans]).encode()).hexdigest()


@dataclass(frozen=True)
class Plan:
    """A configuration on one text: a policy at a budget, or a selector of pages."""

    policy: str  # canonical
    policy_code: str
    label: str | None
    budget: int  # in tokens
    budget_request: str
    mode: str  # the protocol, as in the table `replay`
    selects_pages: bool = False  # it is a selector: nothing is evicted, and nothing replayed


@dataclass
class Outcome:
    """What the model does under a plan."""

    logits: torch.Tensor  # [n, vocabulary]
    kept: (
        dict[int, np.ndarray] | None
    )  # of each layer evicted_after, int32 [Hkv, n]; None: replayed
    peak_tokens: int  # the most of any head
    cache_bytes: int  # over all layers and heads
    is_set: bool = True  # whether the cache is a set of tokens; not that of an estimator


@dataclass(frozen=True)
class How:
    """The options of the replay, for all texts and configurations."""

    protocol: _engine.Protocol
    seed: int = 0
    allocate: str = "uniform"

    def first_step(self, job: Job) -> int:
        """The first measured step."""
        return self.protocol.first_measured(job.prompt_length)

    def options(self) -> dict[str, object]:
        """As keywords of kvsim.sweep."""
        return {**self.protocol.evictions, "seed": self.seed, "allocate": self.allocate}
