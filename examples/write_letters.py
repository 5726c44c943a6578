"""Write the 24 sample letters in examples/letters, from lists of words and a seed. The result is always the same.

    python examples/write_letters.py

Three of them are copies of others with a few changed sentences, so that a search for near-duplicates finds something.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

PAGES = 10
PARAGRAPHS = 4
SENTENCES = 5

SUBJECTS = [
    "the harbour master",
    "the pilot of the morning watch",
    "our agent in the lower town",
    "the widow who keeps the light",
    "the surveyor",
    "the crew of the dredger",
    "the clerk of weights",
    "the owner of the second warehouse",
    "the rope maker",
    "the physician of the port",
    "the captain of the coal barge",
    "the fishermen's guild",
]
VERBS = [
    "has asked for",
    "will not part with",
    "wrote twice about",
    "promised to repair",
    "counted again",
    "could not find",
    "sold without a receipt",
    "inspected",
    "complains of",
    "has paid in full for",
    "is still waiting for",
    "left unattended",
]
OBJECTS = [
    "the new mooring chains",
    "eleven barrels of tar",
    "the lamp at the north pier",
    "a ledger that nobody else may read",
    "the grain from the wrecked brig",
    "the rotten planks of the east quay",
    "the customs seal",
    "forty fathoms of hemp rope",
    "the map of the sandbanks",
    "the salt that was wet on arrival",
    "the bell of the fog station",
    "a cask of nails",
]
CIRCUMSTANCES = [
    "since the last spring tide",
    "before the frost closed the upper basin",
    "although the council had refused it in autumn",
    "because the wind stood in the west for nine days",
    "and nobody could say on whose account",
    "as the enclosed list shows",
    "for which I hold three witnesses",
    "at twice the price of last year",
    "and I ask you to settle the matter before the fleet returns",
    "while the water was too low for the heavy boats",
    "in spite of everything that was said at the meeting",
    "so that the night watch had to be doubled",
]
PLACES = ["Saltmarsh", "Greyhithe", "Ostery", "Low Quay", "Ferrow", "Northmole"]


def sentence(random: Random) -> str:
    """Return one sentence of a business letter."""
    text = f"{random.choice(SUBJECTS)} {random.choice(VERBS)} {random.choice(OBJECTS)} {random.choice(CIRCUMSTANCES)}"
    return text[0].upper() + text[1:] + "."


def page(random: Random, number: int) -> str:
    """Return one page: a heading and a few paragraphs."""
    paragraphs = [" ".join(sentence(random) for _ in range(SENTENCES)) for _ in range(PARAGRAPHS)]
    return f"Page {number}\n\n" + "\n\n".join(paragraphs) + "\n"


def letter(number: int) -> str:
    """Return one letter: pages with a form feed between them."""
    random = Random(number)
    head = f"Harbour office of {random.choice(PLACES)}, letter {number}\n\n"
    return head + "\f".join(page(random, n) for n in range(1, PAGES + 1))


def make_copy(original: str, number: int) -> str:
    """Return a copy in which about one sentence in thirty is new."""
    random = Random(1000 + number)
    sentences = original.split(". ")
    changed = [sentence(random)[:-1] if "\n" not in old and random.random() < 1 / 30 else old for old in sentences]
    return ". ".join(changed)


COPIES = {22: 4, 23: 9, 24: 17}
"""Number of each copy, and number of its original."""


def letters() -> dict[str, str]:
    """Return every letter by its file name."""
    texts = {n: make_copy(letter(COPIES[n]), n) if n in COPIES else letter(n) for n in range(1, 25)}
    return {f"letter_{n:02}.txt": text for n, text in texts.items()}


if __name__ == "__main__":
    for name, text in letters().items():
        (Path(__file__).parent / "letters" / name).write_text(text, encoding="utf-8")
