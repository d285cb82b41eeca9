"""Texts whose answers are known, since they are made: needles in a haystack, lists, long chains.

In: a task, a length in tokens, a seed. Out: lines of a context with questions and answers, for
kvsim.tasks.evaluate, kvsim.evaluate and the recorder. Read first: `conversation.py`, which lays out
a line, then `ruler.py`, which draws samples of tasks; each task has a file, and `filling.py` makes
their contexts as long as was asked. `chains.py` makes answers that are long instead.
"""
