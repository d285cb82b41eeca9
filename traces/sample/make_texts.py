"""Writes texts for tiny-retriever, one JSON object per line.

    python make_texts.py CORPUS.txt > texts.jsonl

Facts such as <river><47> are strewn through a passage of the corpus. The prompt is the first three
quarters of the tokens and holds all facts. The rest asks for some of them: ?<river><47>. `spans`
has the characters of each fact (needle), of each key that is asked for (question) and of its value
(answer). A character is a token, and so is a key or a value; <s> comes before the text.
"""

import argparse
import json
import random
from pathlib import Path

TOKENIZER = Path(__file__).parent / "tiny-retriever" / "tokenizer.json"
NUM_SPECIAL, NUM_VALUES = 2, 100  # added words: <s> and </s>, then the keys, then <00> to <99>


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes texts with facts and questions.")
    add = parser.add_argument
    add("corpus", type=Path, help="plain text")
    add("--name", default="facts", help="texts are called NAME-1, NAME-2, ...")
    add("--count", type=int, default=12, help="texts (default: 12)")
    add("--tokens", type=int, default=1024, help="tokens of each text (default: 1024)")
    add("--facts", type=int, default=12, help="facts in each text (default: 12)")
    add("--questions", type=int, default=12, help="facts that are asked for (default: 12)")
    add("--seed", type=int, default=0, help="(default: 0)")
    options = parser.parse_args()
    if options.questions > options.facts:
        parser.error(f"--questions: expected at most --facts {options.facts}, as each asks another")
    added = json.loads(TOKENIZER.read_text())["added_tokens"][NUM_SPECIAL:]
    words = [word["content"] for word in added]
    source = options.corpus.read_text("ascii")
    rng = random.Random(options.seed)
    for number in range(1, options.count + 1):
        text = make_text(rng, source, words[:-NUM_VALUES], words[-NUM_VALUES:], options)
        print(json.dumps({"name": f"{options.name}-{number}"} | text))


def make_text(
    rng: random.Random, source: str, keys: list[str], values: list[str], options: argparse.Namespace
) -> dict:
    """One text, its `prompt_length` in characters, and its spans."""
    facts = {key: rng.choice(values) for key in rng.sample(keys, options.facts)}
    asked = rng.sample(sorted(facts), options.questions)
    before = options.tokens * 3 // 4 - 1 - 2 * options.facts  # characters, in addition to <s>
    after = options.tokens - options.tokens * 3 // 4 - 3 * options.questions
    start = rng.randrange(len(source) - before - after)
    passage = source[start : start + before + after]
    spans: list[tuple[int, int, str]] = []

    def add(text: str, addition: str, label: str) -> str:
        spans.append((len(text), len(text) + len(addition), label))
        return text + addition

    text, done = "", 0
    for cut, key in zip(sorted(rng.sample(range(before), options.facts)), facts):
        text = add(text + passage[done:cut], key + facts[key], "needle")
        done = cut
    text += passage[done:before]
    prompt_length, done = len(text), before
    for cut, key in zip(sorted(rng.sample(range(after), options.questions)), asked):
        text = add(text + passage[done : before + cut], "?" + key, "question")
        text = add(text, facts[key], "answer")
        done = before + cut
    return {"text": text + passage[done:], "prompt_length": prompt_length, "spans": spans}


if __name__ == "__main__":
    main()
