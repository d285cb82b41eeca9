"""What the recorder and the closed loop share: a running transformers model and its texts.

In: a model and files of texts. Out: its attention calls, the tokens of its forward passes, its
masks and caches, in the form of a trace; texts as tokens. Read first: `attention.py`, which
intercepts calls, then `follower.py`, which follows them through a forward pass.
"""
