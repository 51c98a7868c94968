"""The prompts of the parity tests: text by a seeded rule, cut to a fixed number of tokens.

Part of the golden files' identity: a change here changes every prompt (make_golden.py stores this
file's hash).
"""

import random

SEED = 20261
COUNT = 50
TOKENS = 64

_SUBJECTS = """the river|a small robot|my neighbour|the old library|an honest witness|the engine|
every student|the morning train|a patient gardener|the night shift|our cat|the committee|a sailor|
the compiler|this recipe|the young doctor|a violin|the mountain village|the database|winter""".replace("\n", "").split("|")
_VERBS = """remembers|carries|explains|repairs|avoids|measures|paints|follows|hides|translates|counts|
builds|loses|finds|doubts|welcomes|teaches|breaks|watches|trades""".replace("\n", "").split("|")
_OBJECTS = """seven lanterns|the last letter|a broken clock|warm bread|the map of the coast|two hundred
 questions|a quiet song|its own shadow|the price of salt|an unfinished bridge|the first snow|a list of
 names|the colour blue|some spare parts|a promise|the smell of rain|an empty bottle|the second law|
a borrowed coat|the answer""".replace("\n", "").split("|")
_LINKS = [", and", ", but", ". Then", ". Later", "; meanwhile,", " because", " until", ". In 1987,",
          " while", ", so that", ".\n\nHowever,", " - perhaps"]
_OPENINGS = [
    "Write a short story about this: ",
    "Question: what happens next?\n\n",
    "The following is a report from the year 2031.\n",
    "def describe(world):\n    \"\"\"",
    "Dear Anna,\n\n",
    "Chapter 12\n\n",
    "Here is a list of facts:\n1. ",
    "<|im_start|>user\nPlease continue this text: ",
    "Once upon a time, ",
    "Abstract. We show that ",
]


def _sentence(rng):
    return "%s %s %s" % (rng.choice(_SUBJECTS), rng.choice(_VERBS), rng.choice(_OBJECTS))


def texts():
    """COUNT texts, each longer than TOKENS tokens."""
    rng = random.Random(SEED)
    out = []
    for index in range(COUNT):
        text = _OPENINGS[index % len(_OPENINGS)] + _sentence(rng)
        while len(text) < TOKENS * 8:
            text += "%s %s" % (rng.choice(_LINKS), _sentence(rng))
        out.append(text)
    return out
