"""The context manager that lets a model evict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from ..errors import UsageError
from ..model.decoder import end_tokens as end_tokens_of
from ..model.tokens import token_texts
from ..verbs.options import listed, protocol_from, warn_of
from .evicting_model import Beginning, EvictingModel
from .evicting_model.eviction import Eviction
from .evicting_model.geometry import Geometry, geometry_of
from .loops import How
from .texts import whole_number

ANY_LENGTH = 1_000_000  # of a prompt, to check arguments with


@contextmanager
def evicting(
    model: torch.nn.Module,
    policy: str | type,
    budget: str | float,
    mode: str = "stream",
    eviction_interval: int | str = 1,
    *,
    page: int = 1,
    page_score: str = "mean",
    prompt_length: int | None = None,
    seed: int = 0,
    allocate: str = "uniform",
    names: Iterable[str] = (),
    tokenizer: Any = None,
    drop: bool = False,
    end_tokens: Iterable[int] | None = None,
) -> Iterator[Eviction]:
    """Lets a policy evict in a model of transformers while it runs, until the block ends.

    The policy is fed with the attention of the evicting model itself. What a KV head has evicted is
    not attended to again by its query heads.

    Parameters
    ----------
    model : torch.nn.Module
        A causal language model of transformers.
    policy : str or class
        One policy, as for kvsim.sweep.
    budget : str, int or float
        One budget, as for kvsim.sweep. A share is of the prompt; in stream mode, where no length is
        known, it is refused. Bytes ("64KiB") are those of a KV head in the model's own precision.
    mode : {"stream", "prefill"}, default "stream"
        See `kvsim.Options`.
    eviction_interval : int or "never", default 1
        See `kvsim.Options`.
    page : int, tokens, default 1
        See `kvsim.Options`.
    page_score : {"mean", "max", "min"}, default "mean"
        See `kvsim.Options`.
    prompt_length : int, tokens, optional
        In prefill mode the first tokens of each sequence, which attend in full; by default the
        input of `generate`.
    seed : int, default 0
        See `kvsim.Options`.
    allocate : str, default "uniform"
        See `kvsim.Options`.
    names : iterable of str, optional
        Of the sequences in their order, for policies that draw; sequence-0, ... by default.
    tokenizer : transformers tokenizer, optional
        Gives the text of each token to policies that ask for it.
    drop : bool, default False
        Removes the rows of evicted tokens from the model's own cache where all KV heads of a layer,
        and all members of the batch, hold equally many, as they do under POLICY+shared; elsewhere,
        and in layers with a sliding window or chunks, they are hidden by masks. `storage` says
        which. A forward pass over many tokens holds all of them until it ends. The engine, which
        decides, has the vectors of the whole text in float32 in the memory of the CPU.
    end_tokens : iterable of int, optional
        The tokens that end a member of a batch when they are generated; the model's end tokens by
        default.

    Yields
    ------
    Eviction
        The caches of the last sequences: `kept`, `evicted_after`, `peak_tokens`, `cache_bytes`,
        `storage`, `num_begun`, `takes_single_steps`.

    Raises
    ------
    UsageError
        For a policy that needs the future or full attention and for what contradicts itself.
    RecordError
        At once or in a forward pass, for a model, a mask or a cache that the recorder would refuse,
        too.
    Exception
        What a policy of Python raises is raised by the forward pass.

    Notes
    -----
    Every forward pass with an empty cache begins new sequences, one per member of the batch,
    without its padding.

    A forward pass over many tokens is as many steps in each layer, so teacher-forced text takes one
    pass; only policies that decide over all layers (spatten) take one token at a time, which
    `takes_single_steps` of the cache says.

    Examples
    --------
    >>> with kvsim.evicting(model, policy="h2o", budget="20%", mode="prefill") as cache:
    ...     model.generate(**inputs, max_new_tokens=100)
    >>> cache.kept(layer=3, kv_head=0)  # text positions, of each sequence of the batch
    """
    spec, amount = _only(policy, allocate), ",".join(listed(budget))
    how = How(protocol_from(dict(locals())), seed, allocate)
    names = _listed(names)
    geometry = geometry_of(model, [spec])
    make = _Making(geometry, spec, amount, how, names)
    checked = make.check(prompt_length)
    running = EvictingModel(
        model,
        geometry,
        make,
        protocol=how.protocol,
        prompt_length=prompt_length,
        end_tokens=set(end_tokens_of(model) if end_tokens is None else end_tokens),
        texts_of=None if tokenizer is None else partial(token_texts, tokenizer),
        drop=drop,
    )
    with running.following(model):
        yield Eviction(running, checked.takes_single_steps)
        running.finish()
    if len(names) > running.num_begun:
        raise UsageError(f"names: no text came for {names[running.num_begun]}")


class _Making:
    """Makes the caches of each sequence that begins."""

    def __init__(
        self,
        geometry: Geometry,
        spec: str,
        amount: str,
        how: How,
        names: list[str],
    ) -> None:
        self._geometry, self._spec, self._amount = geometry, spec, amount
        self._how, self._names = how, names

    def check(self, prompt_length: int | None) -> Any:
        """Caches of a sequence. Raises UsageError at once for what none could be begun with."""
        if prompt_length is not None and whole_number("prompt_length", prompt_length) < 0:
            raise UsageError(f"prompt_length: expected 0 or more tokens, found {prompt_length}")
        return self._caches("sequence-0", ANY_LENGTH if prompt_length is None else prompt_length)

    def __call__(self, begin: Beginning) -> Any:
        name = f"sequence-{begin.number}"
        if begin.number < len(self._names):
            name = self._names[begin.number]
        prompt_length = begin.prompt_length or 0
        if self._how.protocol.mode == "prefill" and begin.prompt_length is None:
            raise UsageError(
                'mode="prefill": the length of the prompt is known inside `generate` alone; give '
                "prompt_length"
            )
        return self._caches(name, prompt_length)

    def _caches(self, name: str, prompt_length: int) -> Any:
        from .. import _engine

        options = {**self._how.options(), "prompt_length": prompt_length, "sequence": name}
        return _engine.RunningCaches(self._spec, self._amount, self._geometry.for_engine(), options)


def _only(policy: str | type, allocate: str) -> str:
    """The canonical spec of the one policy. Raises UsageError for several."""
    from .. import _engine

    written = ";".join(listed(policy))
    specs = _engine.specs(written, allocate)
    if len(specs) != 1:
        raise UsageError(f"policy: expected one, found {len(specs)} in {written!r}")
    warn_of([note for note in [specs[0]["note"]] if note])
    return specs[0]["text"]


def _listed(names: Iterable[str]) -> list[str]:
    if isinstance(names, str):
        raise UsageError(f"names: expected a list of names, found the text {names!r}")
    names = list(names)
    for name in names:
        if not isinstance(name, str):
            raise UsageError(f"names: expected texts, found {name!r}")
    if len(set(names)) < len(names):
        raise UsageError("names: expected each name once")
    return names
