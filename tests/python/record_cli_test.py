"""python -m kvsim.record, as a user meets it."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import pytest
import torch

from kvsim.model.texts import read_prompts, read_texts
from kvsim.record.__main__ import main
from kvsim.record.recorder import Recorder
from record_zoo import _config, build, check, fail, letters
from trace_format import token_texts


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model with a tokenizer of letters, as `from_pretrained` loads it."""
    folder = tmp_path_factory.mktemp("models") / "tiny-llama"
    build("llama").save_pretrained(folder)
    letters().save_pretrained(folder)
    return folder


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("the ships wait for the tide.")
    prompts = ['"a river, a harbour"', "", '{"prompt": "rain", "name": "rain/1"}', '{"text": "a"}']
    Path("prompts.jsonl").write_text("\n".join(prompts) + "\n")
    return tmp_path


def test_a_text_becomes_a_trace_that_verifies(folder, work):
    done = subprocess.run(
        [sys.executable, "-m", "kvsim.record", folder, "--text", "text.txt", "--max-new-tokens",
         "10", "--dtype", "float32", "--layers", "0-1", "--device", "cpu", "--compression", "none",
         "-o", "t.h5"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "t.h5 is written; check it with: kvsim verify t.h5" in done.stderr
    check(Path("t.h5"), 1e-4)
    with h5py.File("t.h5") as file:
        assert file.attrs["model"].decode() == "tiny-llama"
        assert file.attrs["recorder"].decode().startswith("kvsim.record (transformers ")
        sequence = file["sequences/text"]
        assert sequence.attrs["source"].decode() == "text.txt"
        assert sequence.attrs["prompt_length"] == 28
        texts = "".join(token_texts(sequence)[:28])
        assert texts == Path("text.txt").read_text()
        assert sorted(sequence["layers"]) == ["0", "1"]
        assert sequence["layers/1/key"].compression is None


def test_an_untrained_model_has_the_shape_and_weights_of_its_seed(folder, work):
    keys = {}
    seeds = {"stored": [], "one": ["--untrained", "1"], "same": ["--untrained", "1"]}
    for name, more in (seeds | {"two": ["--untrained", "2"]}).items():
        assert main([str(folder), "--text", "text.txt", "-o", f"{name}.h5", *more]) == 0
        with h5py.File(f"{name}.h5") as file:
            keys[name] = file["sequences/text/layers/1/key"][()]
            end = f", untrained ({more[1]})" if more else ""
            assert file.attrs["model"].decode() == f"tiny-llama{end}"
    check(Path("one.h5"), 1e-2)
    assert (keys["one"] == keys["same"]).all()
    assert keys["one"].shape == keys["stored"].shape
    assert (keys["one"] != keys["stored"]).any() and (keys["one"] != keys["two"]).any()


def test_a_batch_gives_the_sequences_of_single_prompts(folder, work):
    for size in ("1", "3"):
        arguments = [folder, "--prompts", "prompts.jsonl", "-o", f"{size}.h5"]
        arguments += ["--max-new-tokens", "8", "--batch-size", size, "--dtype", "float32"]
        assert main([str(argument) for argument in arguments]) == 0
        check(Path(f"{size}.h5"), 1e-4)
    with h5py.File("1.h5") as one, h5py.File("3.h5") as other:
        assert list(one["sequences"]) == ["prompt-1", "prompt-4", "rain_1"]
        for name, sequence in one["sequences"].items():
            ids = sequence["token_ids"][()].tolist()
            assert ids == other["sequences"][name]["token_ids"][()].tolist()
        assert one["sequences/rain_1"].attrs["source"].decode() == "prompts.jsonl line 3"
        assert one["sequences/prompt-4"].attrs["source"].decode() == "prompts.jsonl line 4"


def test_a_warning_is_one_line(folder, work, capsys):
    build("deepseek_v3").save_pretrained(work / "deepseek_v3")
    for file in folder.glob("tokenizer*"):
        shutil.copy(file, work / "deepseek_v3")
    assert main(["deepseek_v3", "--text", "text.txt", "-o", "t.h5"]) == 0
    notes = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert len(notes) == 1 and notes[0].startswith("kvsim: warning: the trace does not say how")


def test_a_text_is_cut_to_what_is_asked_for(folder, work):
    arguments = [folder, "--text", "text.txt", "-o", "t.h5", "--max-prompt-tokens", "9"]
    assert main([str(argument) for argument in arguments]) == 0
    with h5py.File("t.h5") as file:
        assert dict(file["sequences/text"].attrs)["num_tokens"] == 9
        assert dict(file["sequences/text"].attrs)["prompt_length"] == 0


def test_samples_are_those_of_the_seed(folder, work):
    ids = []
    for seed in (1, 1, 2):
        arguments = [folder, "--text", "text.txt", "-o", "t.h5", "--temperature", "5"]
        arguments += ["--max-new-tokens", "20", "--seed", seed]
        assert main([str(argument) for argument in arguments]) == 0
        with h5py.File("t.h5") as file:
            ids.append(file["sequences/text/token_ids"][()].tolist())
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required"),
        (["MODEL", "-o", "t.h5"], "one of the arguments --text --prompts/--texts is required"),
        (["MODEL", "--text", "text.txt", "-o", "t.h5", "--max-new-tokens", "-1"],
         "--max-new-tokens: expected a whole number from 0 on, found -1"),
        (["MODEL", "--text", "text.txt", "-o", "t.h5", "--batch-size", "x"],
         "--batch-size: expected a whole number from 1 on, found x"),
        (["MODEL", "--text", "text.txt", "-o", "t.h5", "--layers", "1-"], "layers as in 0-3,7"),
        (["MODEL", "--text", "text.txt", "-o", "t.h5", "--layers", "2,7"], "some of 0..2"),
        (["MODEL", "--text", "text.txt", "-o", "t.h5", "--layers", "0-999999"], "some of 0..2"),
        (["MODEL", "--text", "text.txt", "-o", "t.h5", "--layers", "0-9999999999"], "0-3,7"),
        (["MODEL", "--text", "text.txt", "-o", "t.h5", "--layers", "2,2-1"], "write it as 1-2"),
        (["MODEL", "--text", "text.txt", "-o", "t.h5", "--temperature", "-1"], "--temperature"),
        (["MODEL", "--text", "text.txt", "-o", "t.h5", "--temperature", "nan"], "--temperature"),
        (["MODEL", "--text", "text.txt", "-o", "t.h5", "--temperature", "x"],
         "--temperature: expected 0 or more, found x"),
        (["MODEL", "--text", "text.txt", "-o", "t.h5", "--dtype", "int8"], "--dtype"),
        (["MODEL", "--text", "text.txt", "-o", "t.h5", "--device", "abacus"], "--device"),
        (["MODEL", "--text", "text.txt", "-o", "t.h5", "--device", "meta"],
         "--device meta: cannot be computed on; use --device cpu"),
        (["MODEL", "--text", "text.txt", "-o", "none/t.h5"], "none/t.h5: cannot be written"),
        (
            ["MODEL", "--text", "text.txt", "-o", "t.h5", "--max-new-tokens", "250"],
            "28 tokens and 250 new ones are more than the model's 256 positions; "
            "use --max-prompt-tokens 7",
        ),
        (
            ["MODEL", "--text", "text.txt", "-o", "t.h5", "--max-new-tokens", "300"],
            "--max-new-tokens: the model has 256 positions, found 300",
        ),
    ],
)  # fmt: skip
def test_wrong_usage_ends_in_one_line_with_status_2(arguments, message, folder, work, capsys):
    fail(capsys, 2, message, *[folder if word == "MODEL" else word for word in arguments])


@pytest.mark.parametrize("wrong", [["-o", "none/t.h5"], ["-o", "t.h5", "--layers", "7"]])
def test_what_is_wrong_is_said_before_the_model_is_loaded(wrong, folder, work, capsys):
    bare = shutil.copytree(folder, work / "bare")
    (bare / "model.safetensors").unlink()  # loading it would be a data error
    assert main([str(bare), "--text", "text.txt", *wrong]) == 2


def test_prompts_of_which_each_begins_as_the_one_before(folder, work):
    Path("p.jsonl").write_text('"a river"\n"a river,"\n')
    assert main([str(folder), "--prompts", "p.jsonl", "-o", "t.h5"]) == 0
    with h5py.File("t.h5") as file:
        assert [group.attrs["num_tokens"] for group in file["sequences"].values()] == [7, 8]


@pytest.mark.parametrize("cache", ["static", "sliding_window"])
def test_a_model_that_asks_for_another_cache_is_recorded_with_the_default_one(cache, folder, work):
    asks = shutil.copytree(folder, work / "asks")
    settings = json.loads((asks / "generation_config.json").read_text())
    settings["cache_implementation"] = cache
    (asks / "generation_config.json").write_text(json.dumps(settings))
    arguments = [asks, "--text", "text.txt", "-o", "t.h5", "--max-new-tokens", "4"]
    assert main([str(argument) for argument in arguments]) == 0


WITHOUT_TORCH = """
import runpy, sys
sys.modules["torch"] = None
runpy.run_module("kvsim.record", run_name="__main__")
"""


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["MODEL", "--text", "text.txt", "-o", "t.h5"], 1, "pip install 'kvsim[record]'"),
        (["MODEL"], 2, "-o/--output"),
        (["--help"], 0, ""),
    ],
)
def test_without_torch_one_line_says_what_to_install(arguments, status, says, work):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *arguments],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == status
    assert says in done.stderr and done.stderr.count("\n") == (status != 0)


def test_ends_of_lines_within_a_string_and_a_mark_of_utf_8_are_read(folder, work):
    between = "a\u2028b\u2029c\u0085d"
    Path("p.jsonl").write_text(f'\ufeff"{between}"\n', "utf-8")
    assert [text.text for text in read_prompts(Path("p.jsonl"))] == [between]
    assert main([str(folder), "--prompts", "p.jsonl", "-o", "t.h5"]) == 0
    Path("marked.txt").write_text("\ufeffa text", "utf-8")
    assert read_texts([Path("marked.txt")], [])[0].text == "a text"


def test_no_file_is_overwritten_but_a_trace(folder, work, capsys):
    arguments = [str(folder), "--text", "text.txt", "-o"]
    before = Path("text.txt").read_bytes()
    fail(capsys, 2, "text.txt: there is a file of that name that is no trace", *arguments,
         "text.txt")  # fmt: skip
    assert Path("text.txt").read_bytes() == before
    assert main([*arguments, "t.h5"]) == 0
    assert main([*arguments, "t.h5"]) == 0


def test_a_folder_without_a_tokenizer_is_said_to_have_none(folder, work, capsys):
    build("qwen3").save_pretrained("bare")  # Qwen's, made up without its files, knows nothing
    fail(capsys, 3, "bare: the tokenizer has no vocabulary", "bare", "--text", "text.txt",
         "-o", "t.h5")  # fmt: skip


@pytest.mark.parametrize("name", ["./none", "none/", "/none", "a/b/none"])
def test_a_folder_that_is_not_there_is_not_asked_of_the_hub(name, work, capsys):
    fail(capsys, 3, f"{name}: there is no such folder", name, "--text", "text.txt", "-o", "t.h5")
    fail(capsys, 3, "ends in .gguf", "text.txt", "--text", "text.txt", "-o", "t.h5")


def test_an_interrupted_command_keeps_the_finished_texts(folder, work, capsys, monkeypatch):
    read = Recorder.read
    texts = []

    def interrupted(self, ids):
        texts.append(ids)
        if len(texts) == 3:
            raise KeyboardInterrupt
        read(self, ids)

    monkeypatch.setattr(Recorder, "read", interrupted)
    arguments = [str(folder), "--texts", "prompts.jsonl", "-o", "t.h5"]
    assert main(arguments) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == [f"loading {folder}", "1 of 3 texts", "2 of 3 texts"]
    assert lines[-2:] == [
        "kvsim: warning: 2 finished texts went to t.unfinished.h5",
        "kvsim: error: interrupted; t.h5 is not written",
    ]
    assert not Path("t.h5").exists()
    check(Path("t.unfinished.h5"), 1e-2)


def test_a_gguf_file_that_cannot_be_read_is_one_line(work, capsys, monkeypatch):
    arguments = ["--text", "text.txt", "-o", "t.h5"]
    fail(capsys, 3, "none.gguf: there is no such file", "none.gguf", *arguments)
    Path("notes.gguf").write_text("these are notes")
    fail(capsys, 3, "notes.gguf: cannot be loaded", "notes.gguf", *arguments)
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "gguf" else found(name)
    )
    fail(capsys, 3, "to read a GGUF file, pip install gguf", "notes.gguf", *arguments)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "found an empty file"),
        ('"a"\n{"prompt": ', "line 2: expected JSON"),
        ("[1]", 'line 1: expected a string or {"prompt": "...", "name": "..."}'),
        ('{"prompt": 3}', "line 1: expected a string"),
        ('{"prompt": "a", "name": "x"}\n{"prompt": "b", "name": "x"}', "two prompts are named x"),
        (
            r'"cut \ud83d off"',
            "line 1: expected a text, found half of a surrogate pair, U+D83D",
        ),
        (r'{"prompt": "a", "name": "a\ud83d"}', "line 1: name: expected a text without a slash"),
        (r'{"prompt": "a", "name": "a\u0000b"}', r"halves of surrogate pairs, found 'a\x00b'"),
    ],
)
def test_a_file_without_prompts_is_a_data_error(content, message, folder, work, capsys):
    Path("p.jsonl").write_text(content)
    fail(capsys, 3, message, folder, "--prompts", "p.jsonl", "-o", "t.h5")


def test_a_file_without_text_is_a_data_error(folder, work, capsys):
    fail(capsys, 3, "none.txt: cannot be read", folder, "--text", "none.txt", "-o", "t.h5")
    Path("empty.txt").touch()
    fail(capsys, 3, "found an empty file", folder, "--text", "empty.txt", "-o", "t.h5")
    Path("latin.txt").write_bytes(b"caf\xe9")
    fail(capsys, 3, "expected UTF-8", folder, "--text", "latin.txt", "-o", "t.h5")


def test_a_folder_without_a_decoder_is_a_data_error(folder, work, capsys):
    Path("nothing").mkdir()
    fail(capsys, 3, "nothing: cannot be loaded", "nothing", "--text", "text.txt", "-o", "t.h5")
    Path("t5").mkdir()
    config = _config("T5Config", d_model=32).to_dict()
    Path("t5/config.json").write_text(json.dumps(config))
    fail(capsys, 3, "t5 is an encoder-decoder", "t5", "--text", "text.txt", "-o", "t.h5")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_a_usage_error(folder, work, capsys):
    arguments = ["--text", "text.txt", "-o", "t.h5", "--device", "cuda"]
    fail(capsys, 2, "PyTorch finds no CUDA device here; use --device cpu", folder, *arguments)
