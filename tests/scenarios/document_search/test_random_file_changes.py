"""After any changes of files in any order, the index equals that of a fresh ingest of the final files."""

from __future__ import annotations

import random
from contextlib import closing
from email.message import EmailMessage
from pathlib import Path

import pytest

import holdfast
from holdfast.pipelines import rag

pytest.importorskip("numpy", reason="document search needs the extra rag")

SETTINGS = rag.CollectionSettings(embedder="hash:16")
NAMES = ["a.txt", "b.txt", "c.eml", "d.eml", "deep/e.txt", "deep/f.eml"]
WORDS = ["walrus", "otter", "puffin"]


@pytest.mark.parametrize("seed", [0, 1, 2, 17, 23, 26, 31, 41, 60, 61, 100])  # many of which found something
def test_the_index_is_what_a_fresh_ingest_would_make(tmp_path: Path, seed: int) -> None:
    """Files are written, moved, copied and deleted. Now and then they are submitted or processed."""
    chance = random.Random(seed)
    folder = tmp_path / "f"
    (folder / "deep").mkdir(parents=True)
    with holdfast.open(f"sqlite:///{tmp_path}/old.db") as store, closing(_library(store)) as library:
        for _ in range(chance.randint(8, 25)):
            _something_happens(folder, chance)
            match chance.choice(["ingest", "ingest", "look", "nothing"]):
                case "ingest":
                    library.ingest(str(folder))
                case "look":
                    library.submit_changes(str(folder))
        library.ingest(str(folder))
        assert _seen(library) == _fresh(tmp_path, folder)
        assert holdfast.verify(library.pipeline, store).gone == 0
        assert library.store.balance("documents").balances


def _library(store: holdfast.Store) -> rag.Library:
    return rag.Library(store, settings=SETTINGS)


def _fresh(tmp_path: Path, folder: Path) -> list[tuple[str, str, str]]:
    with holdfast.open(f"sqlite:///{tmp_path}/fresh.db") as store, closing(_library(store)) as library:
        library.ingest(str(folder))
        return _seen(library)


def _seen(library: rag.Library) -> list[tuple[str, str, str]]:
    found = library.search(" ".join([*WORDS, "carried"]), limit=1000)
    assert all(one.by_meaning for one in found)
    return sorted((one.key, one.kind, one.text) for one in found)


def _something_happens(folder: Path, chance: random.Random) -> None:
    there = [name for name in NAMES if (folder / name).exists()]
    one, other = folder / chance.choice(there or NAMES), folder / chance.choice(NAMES)
    what = chance.choice(["write", "write", "move", "move", "copy", "delete"]) if there else "write"
    match what:
        case "write":
            other.write_bytes(_written(other.suffix, chance))
        case "move":
            one.rename(other)
        case "copy":
            other.write_bytes(one.read_bytes())
        case "delete":
            one.unlink()


def _written(suffix: str, chance: random.Random) -> bytes:
    text = chance.choice(WORDS)
    if suffix == ".txt":
        return text.encode()
    message = EmailMessage()
    message["Subject"] = text
    message.set_content(f"About the {text}.")
    for name in chance.sample(["x.txt", "y.txt"], chance.randint(0, 2)):
        message.add_attachment(f"{name} is carried with {chance.choice(WORDS)}", filename=name)
    return message.as_string().replace(message.get_boundary() or "-", "boundary").encode()
