"""Asks a model whose cache policies compress, and scores its answers."""
