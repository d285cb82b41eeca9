"""How a notebook shows a trace."""

from __future__ import annotations

from html import escape
from typing import Any

_MOST_SHOWN = 20  # sequences in a notebook


def html_of(trace: Any) -> str:
    """Sequences, layers, heads, type and optional datasets, as HTML, of a Trace."""
    layers = [layer for sequence in trace.sequences for layer in sequence.layers]
    optional = sorted({name for layer in layers for name in layer.recorded})
    facts = {
        "model": trace.model,
        "query heads, KV heads": f"{trace.num_query_heads}, {trace.num_kv_heads}",
        "head_dim, value_dim": f"{trace.head_dim}, {trace.value_dim}",
        "type": trace.dtype or "not declared",
        "recorded in addition": ", ".join(optional) or "nothing",
    }
    left = ' style="text-align:left"'
    head = "".join(
        f"<tr><th{left}>{escape(name)}</th><td{left}>{escape(str(text))}</td></tr>"
        for name, text in facts.items()
    )
    shown = trace.sequences[:_MOST_SHOWN]
    rows = "".join(
        f"<tr><td{left}>{escape(each.name)}</td><td>{each.num_tokens:,}</td>"
        f"<td>{each.prompt_length:,}</td><td>{len(each.layers)}</td></tr>"
        for each in shown
    )
    more = len(trace.sequences) - len(shown)
    rest = f"<p>and {more:,} more sequences</p>" if more else ""
    names = "<th>tokens</th><th>of the prompt</th><th>layers</th>"
    title = "kvsim.Trace(" + ("in memory" if trace.path is None else repr(trace.path)) + ")"
    return (
        f"<div><b>{escape(title)}</b><table>{head}</table>"
        f"<table><thead><tr><th{left}>sequence</th>{names}</tr></thead>"
        f"<tbody>{rows}</tbody></table>{rest}</div>"
    )
