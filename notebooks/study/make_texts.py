"""Makes texts.jsonl, the twelve texts of the study, and texts_train.jsonl, the eight that scorers
and splits are made of: python make_texts.py MODEL.gguf CORPORA

CORPORA holds wikitext-2/test.txt, wikitext-2/valid.txt and shakespeare/input.txt. The code is of
this repository and changes with it, so another run gives other texts of code.
"""

import json
import random
import re
import sys
from pathlib import Path

from transformers import AutoTokenizer

REPOSITORY = Path(__file__).resolve().parents[2]
NAMES = ["Marlow", "Tessa", "Okoro", "Linden", "Farah", "Brandt"]
LENGTH = 1030  # tokens, at least
FACTS = 4
# A part of the study, too, has texts of every kind.
ORDER = "facts article dialogue code facts article facts dialogue facts code article facts".split()
TRAINING, FIRST = 4, 10  # texts of each of two kinds, from this article on: others than above
# WikiText puts spaces around these.
SPACED = {" @-@ ": "-", " @,@ ": ",", " @.@ ": ".", " , ": ", ", " . ": ". ", " 's": "'s"}
SPACED |= {" ( ": " (", " ) ": ") ", " ; ": "; ", " : ": ": "}


def articles(path):
    """The articles of a WikiText file without their headings, spaced as text is."""
    text = path.read_text()
    for spaced, plain in SPACED.items():
        text = text.replace(spaced, plain)
    parts = re.split(r"\n = ([^=\n]+) = \n", text)
    return [re.sub(r"\n = =.*?= = \n", "\n", part).strip() for part in parts[2::2]]


def sentences(text):
    return re.split(r"(?<=\. )", text)


class Texts:
    def __init__(self, model):
        self.tokenizer = AutoTokenizer.from_pretrained(model.parent, gguf_file=model.name)

    def length(self, text):
        return len(self.tokenizer(text).input_ids)

    def beginning(self, pieces, length=LENGTH):
        """The first pieces that have at least so many tokens together."""
        text = ""
        for piece in pieces:
            text += piece
            if self.length(text) >= length:
                return text
        raise ValueError(f"the pieces have {self.length(text)} tokens, expected {length}")

    def with_facts(self, article, seed):
        """The article with four numbers hidden in it, which its end asks for."""
        drawn = random.Random(seed)
        names = drawn.sample(NAMES, FACTS)
        facts = [(name, drawn.randint(10000, 99999)) for name in names]
        depths = sorted(drawn.sample(range(60, 800), FACTS))
        text, spans = "", []

        def add(words, kind):
            nonlocal text
            spans.append([len(text), len(text) + len(words), kind])
            text += words

        for sentence in sentences(self.beginning(sentences(article), LENGTH - 190)):
            if len(spans) < FACTS and self.length(text) >= depths[len(spans)]:
                name, number = facts[len(spans)]
                add(f"The pass key of {name} is {number}.", "needle")
                text += " "
            text += sentence
        text += "\n\nQuestions about the text above.\n"
        for name, number in drawn.sample(facts, FACTS):
            add(f"What is the pass key of {name}? The pass key of {name} is ", "question")
            add(str(number), "answer")
            text += ".\n"
        return text, spans

    def makers(self, corpora):
        long = [a for a in articles(corpora / "wikitext-2/test.txt") if self.length(a) > 1400]
        plain = [a for a in articles(corpora / "wikitext-2/valid.txt") if self.length(a) > 1400]
        speeches = (corpora / "shakespeare/input.txt").read_text().split("\n\n")
        dialogues = [speeches, speeches[len(speeches) // 2 :]]
        sources = ["policies/kcenter.cpp", "python/kvsim/record/recorder.py"]
        code = [(REPOSITORY / path).read_text().splitlines(keepends=True) for path in sources]
        return {
            "facts": lambda i: self.with_facts(long[i], seed=i),
            "article": lambda i: (self.beginning(sentences(plain[i])), []),
            "dialogue": lambda i: (self.beginning(f"{said}\n\n" for said in dialogues[i]), []),
            "code": lambda i: (self.beginning(code[i]), []),
            "train-facts": lambda i: self.with_facts(long[FIRST + i], seed=100 + i),
            "train-article": lambda i: (self.beginning(sentences(plain[FIRST + i])), []),
        }


def main():
    texts = Texts(Path(sys.argv[1]))
    makers = texts.makers(Path(sys.argv[2]))
    training = [kind for kind in ("train-facts", "train-article") for _ in range(TRAINING)]
    for name, order in {"texts.jsonl": ORDER, "texts_train.jsonl": training}.items():
        with Path(__file__).with_name(name).open("w") as out:
            for position, kind in enumerate(order):
                number = order[:position].count(kind)
                text, spans = makers[kind](number)
                print(f"{kind}-{number}", texts.length(text), "tokens,", len(spans), "spans")
                print(
                    json.dumps({"name": f"{kind}-{number}", "text": text, "spans": spans}), file=out
                )


if __name__ == "__main__":
    main()
