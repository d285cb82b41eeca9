"""What a trace holds: its texts and their layers."""

from __future__ import annotations

from typing import Any, NamedTuple

from .spans import Span


class Layer(NamedTuple):
    """A recorded layer of a sequence.

    Attributes
    ----------
    index : int
        The layer, from 0.
    kv_heads : tuple of int
        The recorded ones.
    sliding_window : int or None, tokens
        The window of the layer.
    attention_chunk : int or None, tokens
        A token sees its own chunk of so many.
    recorded : dict of str to tuple of int
        The shapes of the optional datasets that it has, by name.
    shape : dict
        Its num_query_heads, num_kv_heads, head_dim, value_dim, scale and rope.
    kv_from : int or None
        The layer whose keys and values it reads; it then has no kv_heads.
    """

    index: int
    kv_heads: tuple[int, ...]
    sliding_window: int | None
    attention_chunk: int | None
    recorded: dict[str, tuple[int, ...]]
    shape: dict[str, Any]
    kv_from: int | None

    @property
    def cache(self) -> int:
        """The layer whose keys and values it reads: itself, or another one."""
        return self.index if self.kv_from is None else self.kv_from

    @property
    def has_output(self) -> bool:
        """Whether the head outputs of the model were recorded."""
        return "output" in self.recorded

    @property
    def has_sink_logit(self) -> bool:
        """Whether a learned sink takes attention."""
        return "sink_logit" in self.recorded

    @property
    def has_selected(self) -> bool:
        """Whether the model itself selects what each step sees."""
        return "selected" in self.recorded

    @property
    def has_residual(self) -> bool:
        """Whether the residual stream was recorded."""
        return "residual" in self.recorded

    @property
    def hidden(self) -> int:
        """The columns of the output projection; 0: not recorded."""
        return self.recorded.get("output_projection", (0,))[-1]

    @property
    def gradient_samples(self) -> int:
        """Of the gradients of the head outputs; 0: not recorded."""
        return self.recorded.get("output_score_grad", (0,))[0]

    @property
    def mlp_width(self) -> int:
        """The neurons of the MLP whose activations were recorded; 0: not recorded."""
        return self.recorded.get("mlp_activation", (0,))[-1]


class Sequence(NamedTuple):
    """A recorded text.

    Attributes
    ----------
    name : str
        The name of the text.
    num_tokens : int
        Its length in tokens.
    prompt_length : int, tokens
        Tokens of the prompt; 0: it has none.
    source : str
        Where the text is from.
    layers : tuple of Layer
        The recorded layers.
    spans : tuple of Span
        Labelled parts, as in the file; they may overlap.
    """

    name: str
    num_tokens: int
    prompt_length: int
    source: str
    layers: tuple[Layer, ...]
    spans: tuple[Span, ...]
