"""The public table of results: submissions checked, averaged, and shown on a page.

In: the result files of `submissions/`, or one that somebody wants to submit. Out: lines that say
what is wrong with a file; `index.html` and `table.md`. Read first: `submission.py`, what a file
holds; `trim.py` makes one of a result file, `check.py` says what must hold, `codes.py` compares the
code of policies, `summary.py` has the statistics, `page.py` and `markdown.py` show them.
"""
