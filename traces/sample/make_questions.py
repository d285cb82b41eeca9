"""Writes questions for tiny-retriever, one JSON object per line, for python -m kvsim.tasks.

    python make_questions.py CORPUS.txt > questions.jsonl

A question has a short passage of the corpus as context, in which two facts such as <river><47> are
strewn, and asks for one of them: ?<river>. Its choices are the right value, that of the other fact
and two that stand nowhere. Each question has keys of its own, so that what an example tells is not
asked for by another. `spans` has the characters of the fact that is asked for (needle).
"""

import argparse
import json
import random
from pathlib import Path

from make_texts import NUM_SPECIAL, NUM_VALUES, TOKENIZER

FACTS = 2  # of each question
CHOICES = 4


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes questions with choices.")
    add = parser.add_argument
    add("corpus", type=Path, help="plain text")
    add("--characters", type=int, default=120, help="of each passage (default: 120)")
    add("--seed", type=int, default=0, help="(default: 0)")
    options = parser.parse_args()
    added = json.loads(TOKENIZER.read_text())["added_tokens"][NUM_SPECIAL:]
    words = [word["content"] for word in added]
    keys, values = words[:-NUM_VALUES], words[-NUM_VALUES:]
    source = options.corpus.read_text("ascii")
    rng = random.Random(options.seed)
    rng.shuffle(keys)
    for number in range(1, len(keys) // FACTS + 1):
        own = keys[FACTS * (number - 1) : FACTS * number]
        start = rng.randrange(len(source) - options.characters)
        passage = source[start : start + options.characters]
        print(json.dumps({"name": f"fact-{number}"} | make_question(rng, passage, own, values)))


def make_question(rng: random.Random, passage: str, keys: list[str], values: list[str]) -> dict:
    """A question for the value of the first key."""
    choices = rng.sample(values, CHOICES)
    facts = dict(zip(keys, choices))
    answer = choices[0]
    asked = keys[0]
    rng.shuffle(choices)
    cuts = sorted(rng.sample(range(len(passage)), len(keys)))
    order = rng.sample(keys, len(keys))
    context, done, needle = "", 0, (0, 0)
    for cut, key in zip(cuts, order):
        context += passage[done:cut]
        fact = key + facts[key]
        if key == asked:
            needle = (len(context), len(context) + len(fact))
        context += fact
        done = cut
    return {
        "context": context + passage[done:],
        "question": f"?{asked}",
        "choices": choices,
        "answer": choices.index(answer),
        "spans": [[*needle, "needle"]],
    }


if __name__ == "__main__":
    main()
