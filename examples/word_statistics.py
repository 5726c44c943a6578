"""Word statistics, near-duplicates and a summary of text files.

    holdfast run examples/word_statistics.py examples/letters --store sqlite:///letters.db
    python examples/word_statistics.py letters.db     # print the results

It shows all three shapes of body, and rows of your own tables in the transaction that moves the checkpoint.
All results are real. Only the time is not: the sample letters are plain text, and reading plain text takes no time. So
`read` waits OCR_SECONDS on every page, about as long as optical character recognition takes. That gives you time to
press Ctrl-C. Set OCR_SECONDS=0 in the environment to run at full speed.
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
SHINGLE = 8  # number of words in a row that make one shingle of a text
HASHES = 64  # number of hash functions; a signature has the smallest hash of all shingles for each
BANDS = 8  # two texts are near-duplicates if one whole band of their signatures is the same
ROWS = HASHES // BANDS
MODULUS = (1 << 61) - 1
MULTIPLIER = 0x9E3779B97F4A7C15

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
    """Yield the pages: a stream. Every page is stored as it comes. A resumed run starts after the last stored one."""
    pages = Path(doc.payload["path"]).read_text(encoding="utf-8").split("\f")
    for number, text in enumerate(pages[cursor:], start=cursor + 1):
        time.sleep(OCR_SECONDS)  # in place of OCR; see above
        yield {"number": number, "text": text}


@word_statistics.step(over=read, size=4)
def count(doc: holdfast.Document, pages: list[Page]) -> list[dict[str, int]]:
    """Count the words of each page: over items, in windows of four pages."""
    return [dict(Counter(words(page["text"]))) for page in pages]


@count.rows("word_count")
def counted(doc: holdfast.Document, counts: list[dict[str, int]]) -> list[dict[str, object]]:
    """Return rows of the counts. They commit with the checkpoint, so each page is counted once."""
    return [{"word": word, "times": times} for page in counts for word, times in page.items()]


@word_statistics.step
def sign(doc: holdfast.Document) -> Signature:
    """Return the min-hash signature of the text: a value. Texts that share most shingles share most of it."""
    text = words(" ".join(page["text"] for page in doc.each(read)))
    shingles = {" ".join(text[i : i + SHINGLE]) for i in range(max(len(text) - SHINGLE + 1, 1))}
    marks = [int.from_bytes(blake2b(shingle.encode(), digest_size=7).digest()) for shingle in shingles]
    return {"smallest": [min((mark * (2 * n + 1) * MULTIPLIER + n) % MODULUS for mark in marks) for n in range(HASHES)]}


@word_statistics.step(keep=False)
def place(doc: holdfast.Document) -> list[str]:
    """Return the bands of the signature. Only the rows need them, for a join that finds near-duplicates."""
    signature = doc.output(sign)["smallest"]
    bands = [signature[n : n + ROWS] for n in range(0, HASHES, ROWS)]
    return [blake2b(repr(band).encode(), digest_size=8).hexdigest() for band in bands]


@place.rows("band")
def note(doc: holdfast.Document, bands: list[str]) -> list[dict[str, object]]:
    return [{"place": n, "hash": band, "key": doc.key} for n, band in enumerate(bands)]


@word_statistics.step
def summarise(doc: holdfast.Document) -> dict[str, object]:
    """Return the sentence with the most frequent words of the letter: a value."""
    frequent: Counter[str] = Counter()
    for page in doc.each(count):
        frequent.update(page)
    sentences = [found.strip() for page in doc.each(read) for found in SENTENCE.findall(page["text"])]
    best = max(sentences, key=lambda text: sum(frequent[word] for word in words(text)) / (len(words(text)) or 1))
    return {"words": frequent.total(), "different": len(frequent), "says": best}


def prepare(tx: holdfast.Tx) -> None:
    """Create the tables. The rows of a letter carry its id, so a letter that changes replaces them."""
    tx.execute("create table if not exists word_count (document_id integer, word text, times integer)")
    tx.execute("create index if not exists word_count_document on word_count (document_id)")
    tx.execute("create table if not exists band (document_id integer, place integer, hash text, key text)")
    tx.execute("create index if not exists band_document on band (document_id)")


def words(text: str) -> list[str]:
    """Return the words of a text, in lower case."""
    return WORD.findall(text.lower())


def show(database: str) -> None:
    """Print the results, with plain SQL."""
    db = sqlite3.connect(database)
    (letters, pages) = db.execute(
        "select count(distinct key), count(*) from hf_items where pipeline = 'word_statistics' and step = 'read'"
    ).fetchone()
    (total, different) = db.execute("select sum(times), count(distinct word) from word_count").fetchone()
    print(f"{letters} letters, {pages} pages, {total} words, {different} different ones")
    twins = db.execute(
        "select a.key, b.key, count(*) from band a join band b using (place, hash) where a.key < b.key group by 1, 2"
    ).fetchall()
    for one, other, bands in twins:
        print(f"near-duplicates: {Path(one).name} and {Path(other).name} ({bands} of {BANDS} bands agree)")


if __name__ == "__main__":
    show(sys.argv[1])
