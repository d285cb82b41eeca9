"""Files of any kind: what stands under a name, and files that are written whole or not at all.

In: a path. Out: whether there is a file, without an exception for a name that the file system
refuses, and whether an output may replace it; or an own file next to the path, which gets its name
when it is complete. Read first: `partial.py`; traces/output/README.md says the same of the engine,
which does the work.
"""
