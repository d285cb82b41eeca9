"""The verbs of the program in process: a module and a function for each, with its options.

In: traces, policies, budgets and the options of the verb. Out: frames or a trace; a file where
`output` or a path asks for one. Read first: `sweep.py`, then `options.py`, which brings arguments
to the engine; `shared.py` and `progress.py` are of all verbs. What the verbs do is in
sim/README.md. The verb `labels` is a room of its own.
"""
