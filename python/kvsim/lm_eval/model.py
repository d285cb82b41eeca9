"""The model type `kvsim` of lm-eval: a model of transformers that evicts while it answers."""

from __future__ import annotations

import difflib
import hashlib
import inspect
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from lm_eval.api.registry import register_model
from lm_eval.models.huggingface import HFLM
from tqdm import tqdm

from ..closed_loop import evicting
from ..closed_loop.adaptive import token_by_token, whole_text
from ..closed_loop.evicting_model.eviction import Eviction
from ..errors import KvsimWarning, UsageError
from ..model.cache import cache_argument, returned_cache
from ..verbs.options import listed

OPTIONS = (
    *("policy", "budget", "mode", "eviction_interval", "page", "page_score", "seed", "allocate"),
    "drop",
)
# Arguments of kvsim.evicting that each request determines.
NOT_CHOSEN = ("prompt_length", "names", "end_tokens")


@register_model("kvsim")
class EvictingLM(HFLM):
    """A causal language model of transformers whose requests run under `kvsim.evicting`.

    Parameters
    ----------
    pretrained : transformers.PreTrainedModel or str
        As for lm-eval's `hf`.
    policy : str or class
        As for kvsim.evicting; required.
    budget : str, int or float
        As for kvsim.evicting; required. A share is of the prompt.
    mode : {"stream", "prefill"}, default "stream"
        As for kvsim.evicting. In prefill mode the prompt of a request is its context but the last
        token: it attends in full and is compressed, and every token of the continuation is
        predicted by a step that attends to what was kept.
    eviction_interval : int or "never", default 1
        As for kvsim.evicting.
    page : int, tokens, default 1
        As for kvsim.evicting.
    page_score : {"mean", "max", "min"}, default "mean"
        As for kvsim.evicting.
    seed : int, default 0
        As for kvsim.evicting. What a policy draws depends on it and the tokens of the prompt, in
        stream mode of the whole text, not on the order of requests.
    allocate : str, default "uniform"
        As for kvsim.evicting.
    drop : bool, default False
        As for kvsim.evicting.
    batch_size : int or str, default 1
        Requests are read one at a time, so that no result depends on it.
    **options : Any
        As for lm-eval's `hf`.

    Attributes
    ----------
    peak_tokens : int, tokens
        The most tokens that a KV head held, over all requests so far.
    cache_bytes : int, bytes
        Of the request with the largest caches so far.

    Raises
    ------
    UsageError
        For arguments that contradict each other or that nobody knows; else as kvsim.evicting.
    RecordError
        As kvsim.evicting, at once where it can.

    Warns
    -----
    KvsimWarning
        For another `batch_size` than 1.

    Examples
    --------
    >>> lm = kvsim.lm_eval.EvictingLM(pretrained=model, policy=Mine, budget="20%", mode="prefill")
    >>> lm_eval.simple_evaluate(lm, tasks=["arc_easy"])
    """

    def __init__(
        self,
        pretrained: Any = None,
        *,
        policy: str | type | None = None,
        budget: str | float | None = None,
        mode: str = "stream",
        eviction_interval: int | str = 1,
        page: int = 1,
        page_score: str = "mean",
        seed: int = 0,
        allocate: str = "uniform",
        drop: bool = False,
        batch_size: int | str | None = 1,
        **options: Any,
    ) -> None:
        arguments = locals()
        self._eviction = {name: arguments[name] for name in OPTIONS}
        _check_others(options, isinstance(pretrained, torch.nn.Module))
        _require(pretrained, self._eviction)
        if str(batch_size) not in ("1", "None"):
            warnings.warn(
                f"batch_size {batch_size}: kvsim reads one request at a time; it is taken as 1",
                KvsimWarning,
                stacklevel=2,
            )
        try:
            super().__init__(pretrained, batch_size=1, **options)
        except TypeError as error:
            if "unexpected keyword argument" not in str(error):
                raise
            raise UsageError(
                f"model_args: kvsim takes {', '.join(OPTIONS)}, and neither lm-eval nor the model "
                f"takes one of the others: {error}; a policy with commas needs quotes, or "
                "model_args in JSON"
            ) from error
        self.peak_tokens = 0  # the most tokens that a KV head held, over all requests so far
        self.cache_bytes = 0  # of the request with the largest caches so far
        with evicting(self.model, **self._eviction):
            pass  # refuses at once what could not run

    def get_model_info(self) -> dict[str, Any]:
        """What lm-eval writes into its results about the model, with a part `kvsim`.

        Returns
        -------
        dict
            The part has the version, the arguments, and `peak_tokens` and `cache_bytes`.
        """
        from .. import _engine

        asked = self._eviction | {"policy": ";".join(listed(self._eviction["policy"]))}
        measured = {"peak_tokens": self.peak_tokens, "cache_bytes": self.cache_bytes}
        about = {"version": _engine.version(), **asked, **measured}
        return super().get_model_info() | {"kvsim": about}

    def _loglikelihood_tokens(
        self,
        requests: list[tuple[tuple[str, str], list[int], list[int]]],
        disable_tqdm: bool = False,
        override_bs: int | None = None,
    ) -> list[tuple[float, bool]]:
        """The log-probability of each continuation, and whether greedy decoding would write it.

        Requests of the same context that differ in the last token alone are read once.
        """
        alike: dict[tuple[int, ...], list[int]] = {}
        most = self.max_length - int(self._eviction["mode"] == "prefill")
        for place, (_, context, continuation) in enumerate(requests):
            if len(continuation) > most:
                raise UsageError(
                    f"a continuation has {len(continuation)} tokens; expected at most {most} with "
                    f"a model that takes {self.max_length}"
                )
            tokens = (context + continuation)[-(self.max_length + 1) :]
            if len(tokens) < len(context) + len(continuation):
                warnings.warn(
                    f"a context of {len(context)} and a continuation of {len(continuation)} tokens "
                    f"exceed the {self.max_length} that the model takes; the first "
                    f"{len(context) + len(continuation) - len(tokens)} are left out",
                    KvsimWarning,
                    stacklevel=2,
                )
            key = (len(tokens) - len(continuation), *tokens[:-1])
            alike.setdefault(key, []).append(place)
        answers: list[tuple[float, bool]] = [(0.0, False)] * len(requests)
        hidden = disable_tqdm or self.rank != 0
        with tqdm(total=len(requests), disable=hidden, desc="loglikelihood requests") as bar:
            for (num_context, *read), places in alike.items():
                logarithms = self._log_probabilities(read, num_context)
                for place in places:
                    text, _, continuation = requests[place]
                    answers[place] = _scored(logarithms, continuation)
                    if text is not None:  # not a window of loglikelihood_rolling
                        self.cache_hook.add_partial("loglikelihood", text, answers[place])
                    bar.update(1)
        return answers

    def _log_probabilities(self, read: list[int], num_context: int) -> torch.Tensor:
        """Of the token after each one from the last of the context on, [steps, vocabulary]."""
        ids = torch.tensor([read], device=self.device)
        prompt = num_context - 1
        with self._evicting(ids, prompt) as cache, torch.no_grad(), self._precision():
            if cache.takes_single_steps:
                logits = token_by_token(self.model, ids, self._in_full(prompt))
            else:
                logits = whole_text(self.model, ids)
        return torch.log_softmax(logits[0, prompt:], dim=-1, dtype=self.softmax_dtype)

    def _model_generate(
        self, context: torch.Tensor, max_length: int, stop: list[str], **options: Any
    ) -> torch.Tensor:
        prompt = context.shape[1] - 1
        with self._evicting(context, prompt) as cache:
            if cache.takes_single_steps and self._in_full(prompt):
                with torch.no_grad(), self._precision():
                    output = self.model(context[:, :prompt], use_cache=True)
                options |= cache_argument(self.model, returned_cache(output))
            return super()._model_generate(context, max_length, stop, **options)

    @contextmanager
    def _evicting(self, ids: torch.Tensor, prompt: int) -> Iterator[Eviction]:
        """The model evicts while it reads `ids` [1, n], of which the first `prompt` may attend in
        full. Raises UsageError if these are none and are to be compressed."""
        num_prompt = self._in_full(prompt)
        if self._eviction["mode"] == "prefill" and not num_prompt:
            raise UsageError(
                "mode=prefill: expected a context of two or more tokens, of which all but the last "
                "are compressed, found one of 1; for texts without a context, as those of "
                "loglikelihood_rolling, use mode=stream with a budget in tokens"
            )
        name = _name_of(ids[0, : num_prompt or None])
        with evicting(
            self.model,
            **self._eviction,
            prompt_length=num_prompt or None,
            names=[name],
            tokenizer=self.tokenizer,
        ) as cache:
            yield cache
            self.peak_tokens = max(self.peak_tokens, cache.peak_tokens)
            self.cache_bytes = max(self.cache_bytes, cache.cache_bytes)

    def _in_full(self, prompt: int) -> int:
        """How many of a prompt's tokens attend in full."""
        return prompt if self._eviction["mode"] == "prefill" else 0

    def _precision(self) -> AbstractContextManager[Any]:
        """As lm-eval computes forward passes."""
        return torch.autocast(
            device_type=self.device.type,
            dtype=self.mixed_precision_dtype,
            enabled=self.mixed_precision_dtype is not None,
        )


def _scored(logarithms: torch.Tensor, continuation: list[int]) -> tuple[float, bool]:
    """The sum of the log-probabilities [steps, vocabulary] of tokens, and whether each is best."""
    ids = torch.tensor(continuation, device=logarithms.device)
    is_greedy = bool((logarithms.argmax(dim=-1) == ids).all())
    return float(logarithms.gather(1, ids[:, None]).sum()), is_greedy


def _name_of(ids: torch.Tensor) -> str:
    """A name for these tokens, from which a policy that draws gets its random numbers."""
    return hashlib.sha256(str(ids.tolist()).encode()).hexdigest()[:16]


def _require(pretrained: Any, eviction: dict[str, Any]) -> None:
    """Raises UsageError for what has no default, or is of another type."""
    for name, value, form in (
        ("pretrained", pretrained, "a model of transformers, its folder or its name"),
        ("policy", eviction["policy"], "a policy, such as h2o, or full for the whole cache"),
        ("budget", eviction["budget"], "tokens, or with mode=prefill a share such as 20%"),
    ):
        if value is None:
            raise UsageError(f"{name}: expected {form}, found none; name it in model_args")
    if not isinstance(eviction["drop"], bool):
        raise UsageError(f"drop: expected true or false, found {eviction['drop']!r}")


def _check_others(others: dict[str, Any], is_loaded: bool) -> None:
    """Raises UsageError for options that look like those of kvsim, and for those of the model's
    constructor, to which lm-eval hands on what it does not know, if the model `is_loaded`."""
    known = inspect.signature(HFLM.__init__).parameters
    for name in others:
        if name in known:
            continue
        if name in NOT_CHOSEN:
            raise UsageError(f"{name}: each request of lm-eval has its own; leave it out")
        if alike := difflib.get_close_matches(name, OPTIONS, 1, 0.75):
            raise UsageError(f"model_args: found {name}; did you mean {alike[0]}?")
        if is_loaded:
            raise UsageError(
                f"{name}: neither kvsim ({', '.join(OPTIONS)}) nor lm-eval takes it, and the model "
                "is loaded already; leave it out"
            )
