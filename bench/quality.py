"""Measure the quality of the default search: nDCG@10 on SciFact and Cranfield, also for words alone and vectors alone.

    HOLDFAST_DATA=... python bench/quality.py [--keep FOLDER] [--only scifact]

Every abstract is a text file with the title first. It is ingested and searched with the default settings, the same for
both collections. Embedding takes most of the time: about ten minutes on two cores; with --keep, only once. The rank of
a document is the rank of its best chunk.

SciFact: the documents that a claim cites are relevant.
Cranfield: grades 1 to 4 are relevant, all equally. Most questions have one document marked -1. It is treated in three
ways: left out of the judgements only, so that finding it counts as a mistake; left out of the answers as well, as if it
were not in the collection; or counted as relevant.

"known passages" measures another kind of question: six to eight words in a row from a document, which is the only right
answer. About 150 documents are used. The words are as they are in the text, in quotes, or one of them is left out or is
another one. The figure is the mean reciprocal rank, with 0 if it is not among the first twenty.

"languages" are 56 sentences of seven languages in languages.tsv, all in one collection. The question of each has its
words in other forms or places. Only words are searched. The figure is the mean reciprocal rank of its sentence.
"""

from __future__ import annotations

import argparse
import ast
import csv
import math
import os
import random
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

import holdfast
from holdfast.pipelines import rag

DATA = Path(os.environ.get("HOLDFAST_DATA", Path(__file__).resolve().parent.parent.parent / "shared" / "data"))
FIELD = re.compile(r"^\.([TABW])\s*$", re.MULTILINE)
WAYS = {"words": "words", "meaning": "meaning", "both (the default)": None}

Relevant = dict[str, set[str]]
Judgement = tuple[Relevant, Relevant]
"""The relevant documents of each question, and the documents that do not count."""
PASSAGES, WORDS = 150, (6, 7, 8)
"""Number of known passages that are searched, and words in each."""
ANSWERS = 20
"""Number of answers that are read, so that ten are left without those that do not count."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="folder that keeps the texts and the store")
    parser.add_argument("--only", choices=["scifact", "cranfield", "languages"])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = args.keep or Path(folder)
        for name, load in {"scifact": scifact, "cranfield": cranfield}.items():
            if args.only in (None, name):
                documents, questions, judged = load()
                measure(home, name, documents, questions, judged)
        if args.only in (None, "languages"):
            measure_languages()


def measure(
    home: Path, name: str, documents: Mapping[str, str], questions: Mapping[str, str], judged: Mapping[str, Judgement]
) -> None:
    texts = home / name
    texts.mkdir(parents=True, exist_ok=True)
    for key, text in documents.items():
        path = texts / f"{key}.txt"
        if not path.exists():
            path.write_text(text)
    with holdfast.open(f"sqlite:///{home}/quality.db") as store:
        library = rag.Library(store, name)
        print(f"{name}: {library.ingest(str(texts), threads=2)}", flush=True)
        for way, by in WAYS.items():
            ranked = {number: _ranked(library, text, by) for number, text in questions.items()}
            scores = [f"{reading} {_mean(ranked, *judgement):.4f}" for reading, judgement in judged.items()]
            print(f"  {way:<20} nDCG@10: {'; '.join(scores)}", flush=True)
            ranks = [f"{kind} {_mrr(library, asked, by):.4f}" for kind, asked in _passages(documents).items()]
            print(f"  {'':<20} MRR of known passages: {'; '.join(ranks)}", flush=True)


def measure_languages() -> None:
    rows = [line.split("\t") for line in (Path(__file__).parent / "languages.tsv").read_text("utf-8").splitlines()]
    with tempfile.TemporaryDirectory() as folder, holdfast.open(f"sqlite:///{folder}/languages.db") as store:
        texts = Path(folder) / "texts"
        texts.mkdir()
        for place, (_, text, _) in enumerate(rows):
            (texts / f"{place}.txt").write_text(text, "utf-8")
        library = rag.Library(store, settings=rag.CollectionSettings(embedder="hash:64"))
        print(f"languages: {library.ingest(str(texts))}")
        for language in dict.fromkeys(row[0] for row in rows):
            questions = {str(place): row[2] for place, row in enumerate(rows) if row[0] == language}
            print(f"  {language:<20} MRR by words: {_mrr(library, questions, 'words'):.4f}")
        library.close()


def _mrr(library: rag.Library, questions: Mapping[str, str], by: str | None) -> float:
    """Return the mean reciprocal rank of documents, each by its own question."""
    answers = {key: _ranked(library, question, by) for key, question in questions.items()}
    return sum(1 / (found.index(key) + 1) for key, found in answers.items() if key in found) / len(answers)


def _passages(documents: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return one known passage of each selected document, in several forms."""
    chance = random.Random(18)
    long = {key: words for key, text in documents.items() if len(words := re.findall(r"\S*\w\S*", text)) > 60}
    vocabulary = sorted({word for words in long.values() for word in words})
    forms: dict[str, dict[str, str]] = {"exact": {}, "in quotes": {}, "one left out": {}, "one changed": {}}
    for key, words in [*long.items()][:: max(len(long) // PASSAGES, 1)]:
        length = chance.choice(WORDS)
        start, place = chance.randrange(len(words) - length), chance.randrange(1, length - 1)
        run = words[start : start + length]
        forms["exact"][key] = " ".join(run)
        forms["in quotes"][key] = f'"{" ".join(run)}"'
        forms["one left out"][key] = " ".join(run[:place] + run[place + 1 :])
        forms["one changed"][key] = " ".join([*run[:place], chance.choice(vocabulary), *run[place + 1 :]])
    return forms


def _ranked(library: rag.Library, question: str, by: str | None) -> list[str]:
    return [found.key.removesuffix(".txt") for found in library.search(question, limit=ANSWERS, each=1, by=by)]


def _mean(ranked: Mapping[str, list[str]], relevant: Relevant, ignored: Relevant) -> float:
    scores = [
        ndcg([key for key in ranked[number] if key not in ignored.get(number, ())], wanted)
        for number, wanted in relevant.items()
    ]
    return sum(scores) / len(scores)


def ndcg(ranked: list[str], relevant: set[str]) -> float:
    gained = sum(1 / math.log2(place + 2) for place, key in enumerate(ranked[:10]) if key in relevant)
    return gained / sum(1 / math.log2(place + 2) for place in range(min(10, len(relevant))))


def scifact() -> tuple[dict[str, str], dict[str, str], dict[str, Judgement]]:
    with (DATA / "scifact" / "corpus.csv").open(newline="") as file:
        documents = {row["doc_id"]: f"{row['title']}\n\n{_sentences(row['abstract'])}" for row in csv.DictReader(file)}
    questions: dict[str, str] = {}
    relevant: Relevant = {}
    with (DATA / "scifact" / "claims.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            questions[row["id"]] = row["claim"]
            relevant.setdefault(row["id"], set()).update(re.findall(r"\d+", row["cited_doc_ids"]))
    return documents, questions, {"cited documents": (relevant, {})}


def _sentences(abstract: str) -> str:
    """Parse a list of sentences as numpy prints it: without commas."""
    quoted = re.findall(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", abstract)
    return " ".join(ast.literal_eval(sentence) for sentence in quoted)


def cranfield() -> tuple[dict[str, str], dict[str, str], dict[str, Judgement]]:
    folder = DATA / "cranfield"
    documents: dict[str, str] = {}
    for entry in (folder / "cran.all.1400").read_text().removeprefix(".I ").split("\n.I "):
        number = entry.split("\n", 1)[0].strip()
        parts = FIELD.split(entry)
        fields = dict(zip(parts[1::2], parts[2::2], strict=True))
        documents[number] = f"{fields['T'].strip()}\n\n{fields['W'].strip()}\n"
    entries = (folder / "cran.qry").read_text().split("\n.I ")
    questions = {str(place): entry.split(".W\n", 1)[1].strip() for place, entry in enumerate(entries, 1)}
    without: Relevant = {}
    marked: Relevant = {}
    with_all: Relevant = {}
    for line in (folder / "cranqrel").read_text().splitlines():
        number, document, grade = line.split()
        graded = without if int(grade) > 0 else marked
        graded.setdefault(number, set()).add(document)
        with_all.setdefault(number, set()).add(document)
    judged = {"marked -1: a mistake": (without, {}), "left out": (without, marked), "relevant": (with_all, {})}
    return documents, questions, judged


if __name__ == "__main__":
    main()
