"""What specs lose in a running model: the KL of its predictions, imposed on texts.

Only what runs a model imports torch and transformers, on first use.
"""

from __future__ import annotations

import dataclasses
import hashlib
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import KvsimWarning, RecordError
from ..trace import Trace
from .texts import Text

if TYPE_CHECKING:
    import pandas as pd

KL = "kl_mean"


class ImposedLoop:
    """A model with its texts; rows go to one result file."""

    def __init__(
        self,
        model: Any,
        texts: object,
        tokenizer: Any,
        prompt_length: int | None,
        options: Mapping[str, Any],
        output: Path,
        progress: Any,
    ) -> None:
        from ..closed_loop.asked import loaded, require_room
        from ..closed_loop.texts import input_texts, jobs_of
        from ..model.decoder import model_name
        from ..model.model_id import model_id

        inputs = input_texts(texts)
        has_text = any(isinstance(text.text, str) for text in inputs)
        self._model, self._tokenizer = loaded(model, tokenizer, has_text)
        jobs = jobs_of(inputs, self._tokenizer, None, prompt_length)
        require_room(self._model, jobs)
        self.name, self.model_id = model_name(self._model), model_id(self._model)
        self._jobs = {job.name: job for job in jobs}
        self._inputs = {
            job.name: dataclasses.replace(text, name=job.name) for job, text in zip(jobs, inputs)
        }
        self._prompt_length, self._options = prompt_length, dict(options)
        self._output, self._progress = output, progress

    def texts(self) -> list[Text]:
        return [Text(job.name, job.text_id) for job in self._jobs.values()]

    def recorded(self, names: Sequence[str], folder: Path, gradients: bool = False) -> Trace:
        """The trace of these texts in the folder, recorded unless it is there.

        With gradients it holds what the objectives of a replay need, as far as the model has it.
        """
        from ..model.output_projection import has_projections

        of = [self.model_id, *(self._jobs[name].text_id for name in names), *names]
        of += [str(self._jobs[name].prompt_length) for name in names]
        digest = hashlib.sha256("\n".join(of).encode()).hexdigest()
        path = folder / f"{'search' if gradients else 'held-out'}-{digest[:12]}.h5"
        if path.exists():
            return Trace(path)
        if not has_projections(self._model):
            return self._record(names, path, [])
        if gradients:
            try:
                return self._record(names, path, ["output_projection", "output_score_grad"])
            except RecordError as error:
                warnings.warn(
                    f"the search goes by projected errors, not predicted KL: {error}",
                    KvsimWarning,
                    stacklevel=2,
                )
        return self._record(names, path, ["output_projection"])

    def _record(self, names: Sequence[str], path: Path, also: list[str]) -> Trace:
        from ..closed_loop.recorded import full_logits
        from ..record.session import recording

        with recording(
            self._model, path, tokenizer=self._tokenizer, dtype="float32", also=also
        ) as recorder:
            for name in names:
                job = self._jobs[name]
                recorder.label([name], job.source, job.prompt_length, [job.spans])
                full_logits(self._model, job)
        return Trace(path)

    def rows(
        self,
        specs: Sequence[str],
        budgets: Sequence[str],
        names: Sequence[str],
        trace: Trace,
    ) -> pd.DataFrame:
        """A row per spec, budget and text, with the column `kl_mean` in nats per token."""
        from ..closed_loop.run import evaluate

        return evaluate(
            self._model, [self._inputs[name] for name in names], list(specs), list(budgets),
            tokenizer=self._tokenizer, prompt_length=self._prompt_length, trace=trace,
            output=self._output, progress=self._progress, **self._options,
        )  # fmt: skip
