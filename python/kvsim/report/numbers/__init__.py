"""What a report shows in numbers: the chosen rows of a result file, averaged, with intervals.

In: a result file, a trace where a figure needs one, and what the user chose. Out: frames with a row
per policy and budget. Read first: `frames.py`; `choice.py` is what can be chosen, `averages.py` and
`intervals.py` are the statistics, `closed_loop.py` has the rows of a running model and `losses.py`
where they lose, `tasks.py` and `scores.py` have answers to tasks, `standing.py` says which policy
is best, and `attention.py` and `embedding.py` have what is read or made of a trace.
"""
