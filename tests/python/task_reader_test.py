"""A model that goes back reads on as it did, whatever its caches are."""

import pytest
import torch

from kvsim.closed_loop.evicting_model import EvictingModel
from kvsim.closed_loop.evicting_model.geometry import geometry_of
from kvsim.tasks.asking.reader import Reader
from kvsim.verbs.options import protocol_from
from record_zoo import CONFIGS, build, tokens

PROMPT = 20


def reader_of(model, policy, budget):
    from kvsim import _engine

    geometry = geometry_of(model)
    protocol = protocol_from({"mode": "prefill"})
    options = {**protocol.evictions, "seed": 0, "allocate": "uniform"}
    options |= {"prompt_length": PROMPT, "sequence": "text"}
    evicting = EvictingModel(
        model,
        geometry,
        lambda _: _engine.RunningCaches(policy, str(budget), geometry.for_engine(), options),
        protocol=protocol,
        prompt_length=PROMPT,
        can_go_back=True,
    )
    return evicting, Reader(model, evicting, 2)


@pytest.mark.parametrize("policy", ["h2o", "tova+quant:bits=8"])
@pytest.mark.parametrize("name", CONFIGS)
def test_what_is_read_again_is_as_it_was(name, policy):
    model, ids = build(name), tokens(40)[0]
    evicting, reader = reader_of(model, policy, 8)
    with evicting.following(model), torch.inference_mode():
        reader.read(ids[:PROMPT])
        start = reader.mark()
        singly = evicting.batch[0].caches.takes_single_steps
        first = reader.read(ids[PROMPT:25], singly)
        middle = reader.mark()
        then = reader.read(ids[25:30], singly)
        reader.go_back(start)
        other = reader.read(ids[30:35], singly)
        reader.go_back(middle)
        assert reader.read(ids[25:30], singly).equal(then)
        reader.go_back(start)
        assert reader.read(ids[PROMPT:25], singly).equal(first)
        assert reader.read(ids[25:30], singly).equal(then)
    assert not other.equal(first)
    assert evicting.batch[0].num_tokens == 30
