"""Tries what kvsim does with a model on each kind that transformers knows, built small.

    python tests/python/architectures/campaign.py            # all kinds, a line of each
    python tests/python/architectures/campaign.py llama opt  # some

A refusal is one of kvsim's own errors, which name a reason in one line. Any other exception, and
any number that does not agree, is a failure of kvsim. Only models that run without kvsim are tried.
"""

import inspect
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
import small_models
import torch
import transformers

import kvsim
from kvsim.closed_loop import evicting
from kvsim.model import attention
from kvsim.record import recording

TOKENS, PROMPT, NEW = 40, 20, 10
BUDGET = 6  # below every sliding window
PROTOCOL = dict(mode="prefill", eviction_interval=1)  # models with shared caches take no other
BOTH_LOOPS = ["kl_mean", "nll", "delta_nll"]  # equal for policies that do not look at the run
TOLERANCE = 1e-6
SAME_LOGITS = 1e-4  # relative to the largest
OTHER_ATTENTION = "while it is recorded"  # of the warning that it attends otherwise then


@dataclass(frozen=True)
class Outcome:
    """What came of one kind."""

    kind: str
    is_tried: bool = True  # false: there is no small model of it that runs without kvsim
    is_recorded: bool = False
    reason: str = ""  # why it was not tried or not recorded
    limits: tuple[str, ...] = ()  # what of a recorded one is not complete, or is refused
    failures: tuple[str, ...] = ()  # of kvsim

    def __str__(self) -> str:
        said = ["recorded"] * self.is_recorded + [self.reason] * bool(self.reason)
        fails = (f"FAILS: {each}" for each in self.failures)
        return f"{self.kind}: " + "; ".join([*said, *self.limits, *fails])


def try_kind(kind: str) -> Outcome:
    """Builds the model and tries everything on it."""
    try:
        model = small_models.build(kind)
    except Exception as error:
        return Outcome(kind, False, reason=f"cannot be built small: {_first_sentence(error)}")
    torch.manual_seed(0)
    ids = torch.randint(3, small_models.VOCABULARY, (1, TOKENS))
    try:
        logits = _logits(model, ids)
    except Exception as error:
        return Outcome(kind, False, reason=f"the model itself fails: {_first_sentence(error)}")
    with tempfile.TemporaryDirectory() as folder:
        return _Trial(kind, model, ids, logits, Path(folder) / "trace.h5").outcome()


class _Trial:
    """The steps with one model; a step that is refused or fails keeps none of the others."""

    def __init__(
        self,
        kind: str,
        model: torch.nn.Module,
        ids: torch.Tensor,
        logits: torch.Tensor,
        trace: Path,
    ) -> None:
        self._kind, self._model, self._trace = kind, model, trace
        self._ids, self._logits = ids, logits
        self._limits: list[str] = []
        self._failures: list[str] = []
        self._generated: torch.Tensor | None = None

    def outcome(self) -> Outcome:
        refused = self._try("recording", self._record)
        is_recorded = self._trace.exists() and not self._failures
        steps = {
            "verify": self._verify, "evaluate": self._evaluate, "evicting": self._evict,
            "drop=True": self._drop, "half precision": self._evict_in_half,
        }  # fmt: skip
        if refused:  # so does the other way in
            self._try("evicting", self._evict)
        for name, step in steps.items() if is_recorded else ():
            if reason := self._try(name, step):
                self._limits.append(f"{name}: {reason}")
        found = tuple(self._limits), tuple(self._failures)
        return Outcome(self._kind, True, is_recorded, refused, *found)

    def _try(self, name: str, step: Callable[[], None]) -> str:
        """Why kvsim refuses the step; nothing if it does not."""
        try:
            step()
        except (kvsim.RecordError, kvsim.UsageError) as error:
            return str(error)
        except Exception as error:
            self._failures.append(f"{name}: {type(error).__name__}: {_one_line(error)}")
        return ""

    def _record(self) -> None:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", kvsim.RecordWarning)
            with recording(self._model, self._trace, dtype="float32"):
                logits = _logits(self._model, self._ids)
        warned = [str(w.message) for w in said if w.category is kvsim.RecordWarning]
        self._limits += [each.partition(":")[0] for each in warned]
        if not any(OTHER_ATTENTION in each for each in warned):
            difference = float((logits - self._logits).abs().max() / self._logits.abs().max())
            assert difference < SAME_LOGITS, f"logits differ by {difference:.1g} from its own"
        attend = len(kvsim.Trace(self._trace).sequences[0].layers)
        layers = self._model.config.get_text_config().num_hidden_layers
        if attend < layers:
            self._limits.append(f"{attend} of {layers} layers attend")

    def _verify(self) -> None:
        kvsim.run("verify", self._trace)

    def _evaluate(self) -> None:
        """The imposed and the adaptive loop agree where a policy does not look at the run."""
        frames = [
            kvsim.evaluate(
                self._model, self._ids[0], "window;sink", BUDGET, loop=loop, progress=False
            )
            for loop in ("imposed", "adaptive")
        ]
        imposed, adaptive = (frame[BOTH_LOOPS].to_numpy() for frame in frames)
        np.testing.assert_allclose(adaptive, imposed, atol=TOLERANCE)
        assert (frames[0].kl_mean > 1e-9).all(), "evicting changes nothing"

    def _evict(self) -> None:
        """What stands in for the model's attention returns what that does."""
        with _layouts() as seen, evicting(self._model, "tova", BUDGET, **PROTOCOL):
            self._generated = _generated(self._model, self._ids[:, :PROMPT])
        _require_same(seen)

    def _evict_in_half(self) -> None:
        """The same of a padded batch; the last step, since the model stays in half precision."""
        ids, mask = self._ids[:, :PROMPT].repeat(2, 1), torch.ones(2, PROMPT, dtype=torch.long)
        mask[1, :5] = 0
        self._model.to(torch.bfloat16)
        with _layouts() as seen, evicting(self._model, "window", BUDGET):
            _logits(self._model, ids, attention_mask=mask)
        _require_same(seen)

    def _drop(self) -> None:
        """What is dropped from the model's cache was hidden before."""
        with evicting(self._model, "tova", BUDGET, drop=True, **PROTOCOL) as cache:
            dropped = _generated(self._model, self._ids[:, :PROMPT])
        if self._generated is not None:
            assert torch.equal(dropped, self._generated), "other tokens than without"
        if kept := [layer for layer, how in cache.storage.items() if how != "dropped"]:
            layers = f"{len(kept)} of {len(cache.storage)} layers"
            self._limits.append(f"drop=True keeps all rows in {layers}")


def _logits(model: torch.nn.Module, ids: torch.Tensor, **options) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=ids, **options).logits


def _generated(model: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
    options = dict(max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False, pad_token_id=1)
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        options["logits_to_keep"] = 0  # else layers that share a cache may skip tokens
    return model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), **options)


@contextmanager
def _layouts() -> Iterator[list[tuple]]:
    """Collects what attention returns, in pairs: while it evicts, and the model's own."""
    seen: list[tuple] = []
    intercepted_by = attention._intercepted

    def watched(choose: Callable) -> Callable:
        evicting_one = intercepted_by(choose)

        def attend(module, *vectors, **options):
            result = evicting_one(module, *vectors, **options)
            own = choose(module, options)(module, *vectors, **options)
            seen.append((_layout(*result), _layout(*own)))
            return result

        return attend

    with mock.patch.object(attention, "_intercepted", watched):
        yield seen


def _require_same(seen: list[tuple]) -> None:
    assert seen, "no attention was seen"
    for ours, own in seen:
        assert ours == own, f"attention returns {ours}, the model's own {own}"


def _layout(output: torch.Tensor, weights: torch.Tensor | None) -> tuple:
    """Shapes and types, and the strides of the output, which models view as another shape.

    The stride of a dimension of size 1 says nothing.
    """
    strides = [step for size, step in zip(output.shape, output.stride()) if size > 1]
    shapes = [None if x is None else (tuple(x.shape), x.dtype) for x in (output, weights)]
    return strides, *shapes


def _one_line(error: Exception) -> str:
    return re.sub(r"\s+", " ", str(error)).strip() or type(error).__name__


def _first_sentence(error: Exception) -> str:
    """Of what transformers says; a check of a configuration puts its own error below another."""
    return _one_line(error.__cause__ or error).partition(". ")[0].rstrip(".")


def tried(kinds: list[str]) -> list[Outcome]:
    """Of each kind, with a line as it goes."""
    transformers.logging.set_verbosity_error()
    outcomes = []
    for kind in kinds:
        outcomes.append(try_kind(kind))
        print(outcomes[-1], flush=True)
    return outcomes


if __name__ == "__main__":
    sys.exit(any(outcome.failures for outcome in tried(sys.argv[1:] or small_models.kinds())))
