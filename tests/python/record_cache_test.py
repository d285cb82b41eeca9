"""Keys in a cache may differ by rounding from step to step, and by nothing else."""

import pytest
import torch
import transformers

from kvsim.model.cache import cache_argument
from kvsim.record import RecordError, recording
from record_zoo import build, generate, tokens


class ChangingCache(transformers.DynamicCache):
    """Changes the keys that it holds after each step."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def update(self, key, value, layer, *args, **options):
        result = super().update(key, value, layer, *args, **options)
        self.layers[layer].keys = self.change(self.layers[layer].keys)
        return result


@pytest.mark.parametrize("bits", [4, 8])
def test_a_cache_that_rounds_its_keys_is_refused(bits, tmp_path):
    def rounded(keys):
        unit = keys.abs().amax(dim=-1, keepdim=True) / (2 ** (bits - 1) - 1)
        return (keys / unit).round() * unit

    path = tmp_path / "t.h5"
    model = build("llama")
    changed = pytest.raises(RecordError, match="layer 0: the cache changed since the last step")
    with changed, recording(model, path):
        generate(model, tokens(4), 12, **cache_argument(model, ChangingCache(rounded)))
    assert list(path.parent.iterdir()) == []


def test_keys_that_differ_by_the_rounding_of_a_product_are_recorded(tmp_path):
    def computed_again(keys):
        return keys * (1 + 4 * torch.finfo(keys.dtype).eps)

    path = tmp_path / "t.h5"
    model = build("llama")
    with recording(model, path):
        generate(model, tokens(4), 12, **cache_argument(model, ChangingCache(computed_again)))
