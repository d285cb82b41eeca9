"""A unit: what is read of one KV head at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, eq=False)
class Unit:
    """One KV head over a text of n tokens: read-only arrays that keep their memory.

    Attributes
    ----------
    sequence : str
        The name of the text.
    layer : int
        The layer, from 0.
    kv_head : int
        The KV head, from 0.
    prompt_length : int, tokens
        Of the n tokens, the prompt; 0: none.
    scale : float
        A logit is scale * <query, key>, before soft-capping.
    logit_softcap : float or None
        Logits become cap * tanh(logit / cap).
    sliding_window : int or None, tokens
        The window of the layer.
    token_ids : ndarray, int32, shape (n,)
        Tokens of the text, or empty.
    token_text : tuple of str
        Texts of the n tokens, or none.
    query : ndarray, float32, shape (group, n, head_dim)
        The query heads of its group, after positional rotation.
    key : ndarray, float32, shape (n, head_dim)
        Keys after positional rotation.
    value : ndarray, float32, shape (n, value_dim)
        Values.
    output_projection : ndarray or None, float32, shape (group, value_dim, hidden)
        W_O of each query head.
    residual_square : ndarray or None, float64, shape (n,)
        Squared norms of the residual stream.
    output_score_grad : ndarray or None, float32, shape (samples, group, n, value_dim)
        Gradients of drawn scores with respect to the head outputs.
    attention_chunk : int or None, tokens
        Token j is visible at t while j // chunk == t // chunk.
    sink_logit : ndarray or None, float32, shape (group,)
        A learned logit that takes attention and gives no value.
    selected : ndarray or None, int32, shape (n, K)
        The tokens that each step sees alone, ascending; -1 fills the rest.
    """

    sequence: str
    layer: int
    kv_head: int
    prompt_length: int
    scale: float
    logit_softcap: float | None
    sliding_window: int | None
    token_ids: np.ndarray
    token_text: tuple[str, ...]
    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    output_projection: np.ndarray | None = None
    residual_square: np.ndarray | None = None
    output_score_grad: np.ndarray | None = None
    attention_chunk: int | None = None
    sink_logit: np.ndarray | None = None
    selected: np.ndarray | None = None

    @property
    def num_tokens(self) -> int:
        """The length n of the text, in tokens."""
        return len(self.key)

    def __repr__(self) -> str:
        place = f"{self.sequence!r}, layer={self.layer}, kv_head={self.kv_head}"
        return f"kvsim.Unit({place}: {self.num_tokens} tokens, {len(self.query)} query heads)"
