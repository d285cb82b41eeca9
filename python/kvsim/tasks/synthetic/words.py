"""Words for keys and lists; no word occurs twice."""

from __future__ import annotations

import random
from collections.abc import Iterator

ADJECTIVES = """
ample ancient amber azure bitter bold brave brisk broad calm careful cheerful clever cosy crisp
curious daring distant eager early elegant endless faint fair famous fierce firm fragile frosty
gentle giant glad golden graceful grand handy happy hidden hollow honest humble idle keen kind late
lavish light little lively lonely loud lucky mellow mighty mild modest narrow neat noble odd pale
patient plain polite proud quick quiet rapid rare restless ripe rough rustic scarlet secret serene
shallow sharp shy silent silver simple sleepy slender smooth solid spare steady stern strange
sturdy subtle sunny swift tall tame tender tidy tiny vast vivid warm weary wild wise witty young
""".split()

NOUNS = """
acorn anchor anvil apron arrow attic badge banjo barley barrel basket beacon beaver bell bench
biscuit blanket bottle bracelet branch brick bridge broom bucket button cabin cable camel candle
canoe canyon carpet castle cedar cellar chapel cherry chimney cider circus cliff clover coat
compass copper coral cottage cradle crane cricket crown cupboard curtain dagger daisy desert
diamond dolphin donkey dragon drawer drum eagle easel elbow ember engine falcon feather fence fern
ferry fiddle flag flute forest fossil fountain fox garden garlic gate ginger glacier glove goblet
goose granite grape guitar hammer hammock harbour harp hatchet hazel hedge helmet heron hinge honey
hook horizon island ivory jacket jasmine jigsaw jungle kettle kite kitten ladder lagoon lantern
lark laurel ledger lemon lentil lever lichen lily lizard locket loom lotus magnet mango maple
marble market meadow medal melon mirror mitten monsoon moss mountain mule mushroom needle nest
nutmeg oak oasis olive onion orchard otter oven owl paddle palace panther parcel parrot peach
pebble pelican pencil pepper piano pigeon pillow pine pirate planet plum pocket poppy prairie
pumpkin puppet quarry quilt rabbit radish raft raven ribbon robin rocket rope rudder saddle saffron
sail salmon sandal satchel saucer scarf sea shawl shelf shell shepherd shield shovel sickle
signpost sparrow spindle spoon spruce squirrel stable statue stream sunset swallow sword table
tambourine teapot temple thimble thistle thunder ticket tiger torch tower trumpet tulip tunnel
turnip turtle umbrella valley vase velvet village vineyard violet violin wagon walnut walrus
waterfall weasel whale wheel whistle willow window wolf wool yacht zebra
""".split()

VERBS = """
adopt amuse arrive bake balance bend borrow bounce build carry carve chase climb collect compare
cook count dance dig dive divide draw dream enter escape explain explore fasten fetch float follow
forget gather glide grow harvest hear hurry imagine improve invent juggle jump knit laugh learn
listen measure mend mix notice offer paint pause plant ponder pour praise protect pull reach
repair rest rinse rise roam row search sing sketch sleep smile solve sort speak stir stretch
swim teach throw travel unfold visit wait wander wash weave whisper wonder write
""".split()


def pair(draw: random.Random) -> str:
    """A key such as amber-lantern."""
    return f"{draw.choice(ADJECTIVES)}-{draw.choice(NOUNS)}"


def pairs(draw: random.Random, count: int) -> list[str]:
    """So many different keys."""
    found: dict[str, None] = {}
    while len(found) < count:
        found[pair(draw)] = None
    return list(found)


def vocabulary(draw: random.Random) -> Iterator[str]:
    """Different words without end: the single ones, then pairs, then pairs with a number."""
    single = [*ADJECTIVES, *NOUNS, *VERBS]
    draw.shuffle(single)
    yield from single
    both = [f"{adjective}-{noun}" for adjective in ADJECTIVES for noun in NOUNS]
    draw.shuffle(both)
    yield from both
    number = 2
    while True:
        yield from (f"{word}-{number}" for word in both)
        number += 1
