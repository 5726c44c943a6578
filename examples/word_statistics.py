"""Word statistics, near-duplicates and a summary of text files: the pipeline of `./hf demo`.

    holdfast run examples/word_statistics.py examples/letters --store sqlite:///demo.db
    python examples/word_statistics.py demo.db        # what came out

It shows all three shapes of body, and effects that write your own tables in the transaction that moves the checkpoint.
Everything it computes is real but for one thing: the sample letters are plain text, and reading plain text takes no
time. `read` therefore waits OCR_SECONDS on every page, which is about what optical character recognition takes. That
leaves you time to press Ctrl-C. OCR_SECONDS=0 in the environment lets it run at full speed.
"""

from __future__ import annotations

import os
import re
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import TypedDict

import holdfast

OCR_SECONDS = float(os.environ.get("OCR_SECONDS", "0.8"))
SHINGLE = 8  # so many words in a row are one mark of a text
HASHES = 64  # a signature is the smallest hash of all shingles, under so many hash functions
BANDS = 8  # two texts that agree in one whole band of their signatures are looked at as near-duplicates
ROWS = HASHES // BANDS
MANY = (1 << 61) - 1
MIX = 0x9E3779B97F4A7C15

WORD = re.compile(r"[a-z']+")
SENTENCE = re.compile(r"[^.]+\.")

word_statistics = holdfast.Pipeline("word_statistics")


class Page(TypedDict):
    number: int
    text: str


class Signature(TypedDict):
    smallest: list[int]


@word_statistics.step(commit_every=1)
def read(doc: holdfast.Document, cursor: int = 0) -> Iterator[Page]:
    """A stream: every page is kept as it comes, and a resumed run goes on after the last kept one."""
    pages = Path(doc.payload["path"]).read_text(encoding="utf-8").split("\f")
    for number, text in enumerate(pages[cursor:], start=cursor + 1):
        time.sleep(OCR_SECONDS)  # stands for OCR; see above
        yield {"number": number, "text": text}


@word_statistics.step(over=read, size=4)
def count(doc: holdfast.Document, pages: list[Page]) -> list[dict[str, int]]:
    """Over items: the words of each page, in windows of four pages."""
    return [dict(Counter(words(page["text"]))) for page in pages]


@count.effect
def add_up(tx: holdfast.Tx, doc: holdfast.Document, counts: list[dict[str, int]]) -> None:
    """Adds to a running total. Done twice it would be wrong; it commits with the checkpoint, so it is done once."""
    total: Counter[str] = Counter()
    for page in counts:
        total.update(page)
    tx.execute("create table if not exists word_total (word text primary key, times integer not null)")
    tx.executemany(
        "insert into word_total values (?, ?) on conflict (word) do update set times = times + excluded.times",
        sorted(total.items()),
    )


@word_statistics.step
def sign(doc: holdfast.Document) -> Signature:
    """A value: the min-hash signature of the whole text. Texts that share most shingles share most of it."""
    text = words(" ".join(page["text"] for page in doc.each(read)))
    shingles = {" ".join(text[i : i + SHINGLE]) for i in range(max(len(text) - SHINGLE + 1, 1))}
    marks = [int.from_bytes(blake2b(shingle.encode(), digest_size=7).digest()) for shingle in shingles]
    return {"smallest": [min((mark * (2 * n + 1) * MIX + n) % MANY for mark in marks) for n in range(HASHES)]}


@word_statistics.step(keep=False)
def place(doc: holdfast.Document) -> list[str]:
    """Only its effect matters: the bands of the signature, for a join that finds near-duplicates."""
    signature = doc.output(sign)["smallest"]
    bands = [signature[n : n + ROWS] for n in range(0, HASHES, ROWS)]
    return [blake2b(repr(band).encode(), digest_size=8).hexdigest() for band in bands]


@place.effect
def note(tx: holdfast.Tx, doc: holdfast.Document, bands: list[str]) -> None:
    tx.execute("create table if not exists band (place integer, hash text, key text, primary key (place, hash, key))")
    tx.executemany("insert into band values (?, ?, ?)", [(n, band, doc.key) for n, band in enumerate(bands)])


@word_statistics.step
def summarise(doc: holdfast.Document) -> dict[str, object]:
    """A value: the sentence whose words are the most frequent of the letter."""
    frequent: Counter[str] = Counter()
    for page in doc.each(count):
        frequent.update(page)
    sentences = [said.strip() for page in doc.each(read) for said in SENTENCE.findall(page["text"])]
    best = max(sentences, key=lambda said: sum(frequent[word] for word in words(said)) / (len(words(said)) or 1))
    return {"words": frequent.total(), "different": len(frequent), "says": best}


def words(text: str) -> list[str]:
    """The words of a text, in lower case."""
    return WORD.findall(text.lower())


def show(database: str) -> None:
    """Prints what came out, with plain SQL."""
    db = sqlite3.connect(database)
    (letters, pages) = db.execute(
        "select count(distinct key), count(*) from hf_items where pipeline = 'word_statistics' and step = 'read'"
    ).fetchone()
    (total, different) = db.execute("select sum(times), count(*) from word_total").fetchone()
    print(f"{letters} letters, {pages} pages, {total} words, {different} different ones")
    twins = db.execute(
        "select a.key, b.key, count(*) from band a join band b using (place, hash) where a.key < b.key group by 1, 2"
    ).fetchall()
    for one, other, bands in twins:
        print(f"near-duplicates: {Path(one).name} and {Path(other).name} ({bands} of {BANDS} bands agree)")


if __name__ == "__main__":
    show(sys.argv[1])
