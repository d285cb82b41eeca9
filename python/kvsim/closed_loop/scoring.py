"""What the predictions under eviction are worth, against those of the full cache."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ..model.host import on_host
from .loops import Job

ELEMENTS_AT_ONCE = 1 << 22  # of the logits, in float64
ELEMENTS_OF_CPU = 1 << 20  # stay in the processor's caches
KEPT_BYTES = 1 << 30  # of the full cache's probabilities


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


@dataclass(frozen=True)
class Steps:
    """The predictions of a text, step by step, in nats. The measured step `first` comes first."""

    first: int
    kl: np.ndarray  # float64 [steps], from the full cache's prediction
    nll_full: np.ndarray  # float64 [steps with a next token], of the full cache
    nll: np.ndarray  # float64 [steps with a next token]
    agrees: np.ndarray  # boolean [steps]: the most likely token is the full cache's, too
    right_full: np.ndarray  # boolean [steps with a next token]: that is the full cache's likeliest
    right: np.ndarray  # boolean [steps with a next token]
    likeliest: np.ndarray  # int64 [n], of all steps of the text


class Scorer:
    """Compares logits of one text with those of the full cache.

    All steps from `first_step` on are measured. With the full cache's probabilities p, a step's
    KL is the mean of log p under p less that of log q. All of it is float64. The probabilities are
    computed once for all configurations if they fit into KEPT_BYTES, else again for each.
    """

    def __init__(self, job: Job, full: torch.Tensor, first_step: int) -> None:
        self._job, self._first = job, first_step
        self._full = full.detach()[first_step:]
        self._likeliest = _likeliest(full)
        elements = ELEMENTS_AT_ONCE
        if full.device.type == "cpu":
            elements = min(elements, ELEMENTS_OF_CPU)
        self._rows = max(1, elements // full.shape[1])
        following = torch.from_numpy(job.ids[first_step + 1 :].astype(np.int64))
        self._following = following.to(_where(full))[:, None]
        self._kept: list[torch.Tensor] | None = None
        if self._full.numel() * 8 <= KEPT_BYTES:
            self._kept = [self._p(start) for start in self._starts()]
        self._of_full = self._log_q(self._full)

    def score(self, logits: torch.Tensor) -> Score:
        """The score of logits [n, vocabulary]."""
        return self.mean(self.steps(logits))

    def steps(self, logits: torch.Tensor) -> Steps:
        """Each step of logits [n, vocabulary]."""
        mean_full, next_full = self._of_full
        mean, next_ = self._log_q(logits.detach()[self._first :])
        likeliest = _likeliest(logits)
        agrees = (likeliest == self._likeliest)[self._first :]
        following = self._job.ids[self._first + 1 :]
        right_full, right = (
            each[self._first : -1] == following for each in (self._likeliest, likeliest)
        )
        return Steps(
            self._first, mean_full - mean, -next_full, -next_, agrees, right_full, right, likeliest
        )

    def mean(self, steps: Steps) -> Score:
        """Of all measured steps."""
        predicts = len(steps.nll) > 0
        return Score(
            steps=len(steps.kl),
            nll_full=float(steps.nll_full.mean()) if predicts else None,
            nll=float(steps.nll.mean()) if predicts else None,
            delta_nll=float((steps.nll - steps.nll_full).mean()) if predicts else None,
            kl_mean=float(steps.kl.mean()),
            top1_agreement=float(steps.agrees.mean()),
            answers=len(self._answers()),
            answers_right_full=self._right(self._likeliest),
            answers_right=self._right(steps.likeliest),
        )

    def _log_q(self, logits: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
        """Of logits [steps, vocabulary], at each step: the mean of log q under p; log q of the next
        token, where there is one."""
        means, of_next = [], []
        for block, start in enumerate(self._starts()):
            rows = _float64(logits[start : start + self._rows])
            p = self._p(start) if self._kept is None else self._kept[block]
            log_sum = torch.logsumexp(rows, -1)
            means.append(torch.linalg.vecdot(p, rows) - log_sum)
            next_ = self._following[start : start + self._rows]
            of_next.append(rows[: len(next_)].gather(1, next_)[:, 0] - log_sum[: len(next_)])
        mean, next_ = on_host(torch.cat(means), torch.cat(of_next))
        return mean.numpy(), next_.numpy()

    def _starts(self) -> range:
        return range(0, len(self._full), self._rows)

    def _p(self, start: int) -> torch.Tensor:
        return torch.softmax(_float64(self._full[start : start + self._rows]), -1)

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


def _float64(rows: torch.Tensor) -> torch.Tensor:
    return rows.to(_where(rows)).double()


def _where(logits: torch.Tensor) -> torch.device:
    """Where they are scored: mps has no float64."""
    return torch.device("cpu") if logits.device.type == "mps" else logits.device


def _likeliest(logits: torch.Tensor) -> np.ndarray:
    return logits.detach().argmax(-1).cpu().numpy()
