"""A protocol in Python is the engine's own value."""

import pytest

import kvsim
from kvsim import _engine
from kvsim.report.numbers.protocol import options_of
from kvsim.verbs.options import ProtocolOptions, protocol_from

NAMES = [
    "stream",
    "prefill",
    "stream:interval=4",
    "prefill:interval=never,every=10",
    "prefill:interval=3,reference=none",
    "stream:reference=sample:8",
    "prefill:interval=4,page=16,page-score=max,every=10",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_gives_the_protocol_that_has_it(name):
    assert _engine.Protocol.of_name(name).name == name


def test_keywords_are_taken_by_their_names():
    given = {"mode": "prefill", "eviction_interval": 4, "every": 10, "seed": 3}
    assert protocol_from(given) == _engine.Protocol.of_name("prefill:interval=4,every=10")
    assert given == {"seed": 3}
    every = {"mode": "prefill", "eviction_interval": "2", "page": 4, "page_score": "min"}
    every |= {"every": 1, "reference": "none"}
    assert set(every) == set(ProtocolOptions.__annotations__)
    assert protocol_from(every).name == "prefill:interval=2,page=4,page-score=min,reference=none"


@pytest.mark.parametrize("wrong", [{"mode": 3}, {"eviction_interval": "often"}, {"every": 0},
                                   {"reference": "half"}, {"pages": 2}, {"page": 0},
                                   {"page_score": "sum"}])  # fmt: skip
def test_a_wrong_keyword_is_refused(wrong):
    with pytest.raises(kvsim.UsageError, match=next(iter(wrong)).replace("_", ".")):
        _engine.Protocol(**wrong)


def test_another_name_is_refused():
    with pytest.raises(kvsim.DataError, match="found 'stream:pages=4'"):
        _engine.Protocol.of_name("stream:pages=4")


def test_it_tells_what_a_text_comes_to():
    once = _engine.Protocol(mode="prefill", eviction_interval="never")
    assert (once.first_measured(30), once.evicts_once) == (30, True)
    assert _engine.budgets_of("10%,64", once, 100, 30) == [("10%", 3), ("64", 64)]
    evictions = {"mode": "prefill", "eviction_interval": "never", "page": 1, "page_score": "mean"}
    assert once.evictions == evictions
    assert options_of(once) == " --mode prefill --eviction-interval never"
    plain = _engine.Protocol(every=5)
    assert plain.first_measured(30) == 0
    assert _engine.budgets_of("10%,64", plain, 100, 30) == [("10%", 10), ("64", 64)]
    assert (plain.evicts_every_step, plain.most_held(7), options_of(plain)) == (True, 7, "")
    assert _engine.Protocol(eviction_interval=4).most_held(7) == 10
    pages = _engine.Protocol(page=16)
    assert _engine.budgets_of("10%,64", pages, 500, 0) == [("10%", 48), ("64", 64)]
    assert options_of(pages) == " --page 16"
