"""What the policy `kvzip` scores tokens by: the attention they get when a text is read again.

In: a model and a trace of it. Out: a file of scores, one for each token, layer and KV head, and on
request the budgets of the heads that follow from them. Read first: `run.py`, the function;
`reader.py` follows the model's passes, `attention.py` computes the scores of one call, `wording.py`
knows what the model is asked, `arguments.py` and `checks.py` refuse arguments, texts and models,
`scores_file.py` and `budgets.py` write.

Only what runs the model imports torch and transformers.
"""

from .run import second_reading

__all__ = ["second_reading"]
