"""What the recorder and the closed loop share: a running transformers model and its texts.

It holds the model's attention calls, the tokens of its forward passes, its masks and caches, and
the reading and encoding of texts.
"""
