"""What needles are hidden in, and how much of it."""

import random
import re

from kvsim.tasks import ruler
from kvsim.tasks.synthetic.filling import filled
from kvsim.tasks.synthetic.haystack import BUNDLED, Haystack, hide
from kvsim.tasks.synthetic.words import ADJECTIVES, NOUNS, VERBS


def test_a_haystack_is_taken_and_begins_again(tmp_path):
    (tmp_path / "own.txt").write_text("One stone.\nTwo  stones!\n")
    (line,) = ruler(320, ["niah-single"], samples=1, haystack=[tmp_path / "own.txt", "Some."])
    (needle,) = [line["text"][a:b] for a, b, label in line["spans"] if label == "needle"]
    hay = line["text"].split("\n\n")[1].replace(needle, "").split()
    of_one = "One stone. Two stones! Some.".split()
    first = next(i for i in range(5) if hay[0] == of_one[i])
    assert len(hay) > 100
    assert hay == [of_one[(first + i) % 5] for i in range(len(hay))]


def test_text_without_sentences_hides_needles_too():
    sentences = Haystack(["word " * 150]).excerpt(1, 100)
    assert [len(each.split()) for each in sentences] == [60, 30, 10]
    text, ((first, end, label),) = hide(sentences, [(0.5, "Here.", "needle")])
    assert text.split().index("Here.") == 60 and (text[first:end], label) == ("Here.", "needle")


def test_the_bundled_haystack_has_no_numbers_and_words_are_different():
    text = BUNDLED.read_text("utf-8")
    assert len(text.split()) > 1500 and not re.search(r"\d|VAR|magic", text)
    words = [*ADJECTIVES, *NOUNS, *VERBS]
    assert len({*words}) == len(words)


def test_the_most_items_that_fit_are_found():
    draw = random.Random(3)
    for _ in range(200):
        sizes = [draw.randrange(1, 30)]
        for _ in range(120):
            sizes.append(sizes[-1] + draw.randrange(1, 12))
        most = draw.randrange(sizes[0], 110)
        found = filled(lambda n, sizes=sizes: n, lambda n, sizes=sizes: sizes[n], most, "x")
        assert sizes[found] <= most < sizes[found + 1]
