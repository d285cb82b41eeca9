"""What the predictions under eviction are worth, against those of the full cache."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from .loops import Job

ELEMENTS_AT_ONCE = 1 << 22  # of the logits, in float64


@dataclass(frozen=True)
class Score:
    """Columns of the table `closed_loop`."""

    steps: int
    nll_full: float | None  # None: no measured step has a next token
    nll: float | None
    delta_nll: float | None
    kl_mean: float
    top1_agreement: float
    answers: int
    answers_right_full: int | None  # None: there are no answers
    answers_right: int | None


class Scorer:
    """Compares logits of one text with those of the full cache.

    All steps from `first_step` on are measured. Sums are taken in float64.
    """

    def __init__(self, job: Job, full: torch.Tensor, first_step: int) -> None:
        self._job, self._full, self._first = job, full.detach(), first_step
        self._likeliest = _likeliest(self._full)
        self._rows = max(1, ELEMENTS_AT_ONCE // self._full.shape[1])
        # Of a small vocabulary once for all configurations; of a large one again for each.
        self._log_p = _log_softmax(full) if full.numel() <= ELEMENTS_AT_ONCE else None

    def score(self, logits: torch.Tensor) -> Score:
        """The score of logits [n, vocabulary]."""
        job, first = self._job, self._first
        n = len(job.ids)
        steps = n - first
        predicted = max(0, n - 1 - first)  # steps with a next token
        kl = lost_full = lost = 0.0
        following = torch.from_numpy(job.ids.astype(np.int64)).to(logits.device)
        for start in range(first, n, self._rows):
            end = min(start + self._rows, n)
            log_p = self._of_full(start, end)
            log_q = _log_softmax(logits[start:end])
            kl += float((log_p.exp() * (log_p - log_q)).sum())
            next_ = following[start + 1 : end + 1].to(log_p.device)[:, None]
            lost_full -= float(log_p[: len(next_)].gather(1, next_).sum())
            lost -= float(log_q[: len(next_)].gather(1, next_).sum())
        likeliest = _likeliest(logits)
        agreed = int((likeliest[first:] == self._likeliest[first:]).sum())
        return Score(
            steps=steps,
            nll_full=lost_full / predicted if predicted else None,
            nll=lost / predicted if predicted else None,
            delta_nll=(lost - lost_full) / predicted if predicted else None,
            kl_mean=kl / steps,
            top1_agreement=agreed / steps,
            answers=len(self._answers()),
            answers_right_full=self._right(self._likeliest),
            answers_right=self._right(likeliest),
        )

    def _of_full(self, start: int, end: int) -> torch.Tensor:
        if self._log_p is None:
            return _log_softmax(self._full[start:end])
        return self._log_p[start:end]

    def _answers(self) -> list[tuple[int, int]]:
        """The answers, half open, of which a measured step predicts a token.

        Step t predicts token t + 1.
        """
        spans = [span for span in self._job.spans if span.label == "answer"]
        return [(start, end) for start, end, _ in spans if end - 2 >= self._first]

    def _right(self, likeliest: np.ndarray) -> int | None:
        """How many answers are predicted token by token; nothing predicts the first of a text."""
        right = 0 if self._answers() else None
        for start, end in self._answers():
            start = max(start, 1)
            right += bool((likeliest[start - 1 : end - 1] == self._job.ids[start:end]).all())
        return right


def _log_softmax(rows: torch.Tensor) -> torch.Tensor:
    rows = rows.detach()
    if rows.device.type == "mps":  # which has no float64
        rows = rows.cpu()
    return torch.log_softmax(rows.double(), -1)


def _likeliest(logits: torch.Tensor) -> np.ndarray:
    return logits.detach().argmax(-1).cpu().numpy()
