"""One sequence of a batch while a model reads or generates it."""

import torch


class Member:
    """Counts the tokens of a sequence. Padding is none of them."""

    def __init__(self) -> None:
        self.num_tokens = 0
        self.finished = False  # the text has ended; what the batch still feeds is padding
        self.new_rows = torch.empty(0, dtype=torch.long)  # the current step's real tokens

    def feed(
        self, ids: torch.Tensor | None, real: torch.Tensor, in_prompt: bool | None, ends: set[int]
    ) -> None:
        """Adds the tokens of a step: ids [new] and which of them are not padding.

        `in_prompt` says whether they are read before generation or are generated; None: unknown.
        A generated token in `ends` ends the sequence and is not part of it.
        """
        if in_prompt is False and ids is not None:
            self.finished |= int(ids[0]) in ends
        self.new_rows = real.nonzero().flatten()[: 0 if self.finished else None]
        self.num_tokens += len(self.new_rows)
