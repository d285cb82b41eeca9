"""All presses of kvpress, and the rows of python/kvpress.md.

Run as a program, it prints the table of that page.
"""

from collections.abc import Callable
from dataclasses import dataclass

import kvpress
from kvpress import KnormPress, SnapKVPress

import kvsim
from kvsim.kvpress.refusals import IN_MODEL

# What kvpress exports in addition to presses: two base classes and its pipeline.
NO_PRESSES = {"BasePress", "ScorerPress", "KVPressTextGenerationPipeline"}
HEADER = (
    "| press | of a trace | in a model | the same in kvsim |",
    "| --- | --- | --- | --- |",
)


@dataclass(frozen=True)
class Known:
    """A press, by an example of it. `equal` is what kvsim itself has of its kind."""

    make: Callable[[], object] | None = None  # None: without arguments
    equal: str = ""


def _of(name, press=KnormPress, **settings):
    return lambda: getattr(kvpress, name)(press(), **settings)


def _window():
    return SnapKVPress(window_size=16)


def _finch():
    press = kvpress.FinchPress()
    press.window_size = 16
    return press


PRESSES = {
    "AdaKVPress": Known(_of("AdaKVPress", _window), "the press in it, `@adaptive`"),
    "BlockPress": Known(
        _of("BlockPress", block_size=32), "the press in it, if it scores each token by itself"
    ),
    "CAMPress": Known(_of("CAMPress"), "`+merge:into=cam`, the authors' own"),
    "CURPress": Known(),
    "CapPress": Known(),
    "ChunkKVPress": Known(
        _of("ChunkKVPress", _window), "the press in it, `+chunk+shared`, where chunks come out even"
    ),
    "ChunkPress": Known(_of("ChunkPress", chunk_length=100)),
    "CompactorPress": Known(),
    "ComposedPress": Known(lambda: kvpress.ComposedPress([KnormPress(0.5), KnormPress(0.2)])),
    "CompressionRatioDecodingPress": Known(_of("CompressionRatioDecodingPress")),
    "CriticalAdaKVPress": Known(
        _of("CriticalAdaKVPress", _window), "the press in it, `+critical@adaptive`, nearly"
    ),
    "CriticalKVPress": Known(_of("CriticalKVPress", _window), "the press in it, `+critical`"),
    "DMSPress": Known(
        _of("DMSPress", threshold=-8.0, sliding_window_size=16), "the press in it, `+threshold`"
    ),
    "DecodingPress": Known(_of("DecodingPress"), "the press in it, `--eviction-interval K`"),
    "DuoAttentionPress": Known(
        lambda: kvpress.DuoAttentionPress(head_compression_ratio=0.5),
        "`duo:file=PATH`, with its pattern as a file",
    ),
    "EntropyGatedChunkKVPress": Known(_of("EntropyGatedChunkKVPress", _window)),
    "ExpectedAttentionPress": Known(equal="`expected-attention:preset=kvpress`"),
    "ExpectedAttentionStatsPress": Known(),
    "FastKVzipPress": Known(),
    "FinchPress": Known(_finch),
    "KVComposePress": Known(),
    "KVgradPress": Known(),
    "KVzapPress": Known(),
    "KVzipPress": Known(
        equal="`kvzip:file=PATH@file:PATH`, with both files of the [second reading]"
        "(record.md#a-second-reading)"
    ),
    "KeyDiffPress": Known(equal="`keydiff`"),
    "KeyRerotationPress": Known(
        _of("KeyRerotationPress"), "`positions=slot`, where a policy has it"
    ),
    "KnormPress": Known(equal="`knorm`"),
    "LUKVPress": Known(
        lambda: kvpress.LUKVPress(KnormPress()), "the press in it, `@file:PATH`, with its file"
    ),
    "LagKVPress": Known(lambda: kvpress.LagKVPress(lag_size=32)),
    "LeverageScorePress": Known(),
    "MergingPress": Known(_of("MergingPress")),
    "NonCausalAttnPress": Known(),
    "ObservedAttentionPress": Known(equal="`h2o:preset=kvpress`"),
    "PerLayerCompressionPress": Known(
        lambda: kvpress.PerLayerCompressionPress(KnormPress(), [0.2, 0.5, 0.8])
    ),
    "PrefillDecodingPress": Known(
        lambda: kvpress.PrefillDecodingPress(KnormPress()), "the press in it"
    ),
    "PyramidKVPress": Known(
        lambda: kvpress.PyramidKVPress(window_size=4, beta=5),
        "`snapkv:preset=code@pyramid`, nearly",
    ),
    "QFilterPress": Known(),
    "RandomPress": Known(equal="`random`, another draw"),
    "RestoreKVPress": Known(),
    "SimLayerKVPress": Known(
        lambda: kvpress.SimLayerKVPress(lazy_threshold=0.2, n_recent=16, n_initial=4)
    ),
    "SnapKVPress": Known(_window, "`snapkv:preset=code`"),
    "StreamingLLMPress": Known(equal="`sink`"),
    "TOVAPress": Known(equal="`tova:preset=paper`"),
    "ThinKPress": Known(lambda: kvpress.ThinKPress(key_channel_compression_ratio=0.5)),
}


def example(name):
    """The press of that name in the table."""
    return (PRESSES[name].make or getattr(kvpress, name))()


def answer(name, in_model):
    """What `from_kvpress` says of it: yes, or why not."""
    try:
        kvsim.from_kvpress(example(name), name=f"table-{name.lower()}", in_model=in_model)
    except kvsim.UsageError as refused:
        return str(refused).partition(": ")[2].removesuffix("; " + IN_MODEL).replace("|", "\\|")
    return "yes"


def row(name):
    """The line of the page."""
    of_trace, in_model = (answer(name, each) for each in (False, True))
    if in_model == of_trace != "yes":
        in_model = "no"
    return f"| {name} | {of_trace} | {in_model} | {PRESSES[name].equal} |"


if __name__ == "__main__":
    print("\n".join([*HEADER, *map(row, PRESSES)]))
