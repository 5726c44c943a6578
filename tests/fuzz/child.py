"""One target in a process of its own: `python -m tests.fuzz.child NAME FOLDER --seconds S --number N`.

It leaves `told.json` in the folder; one that dies leaves what it died of in `last`.
"""

from __future__ import annotations

import argparse
import resource
from pathlib import Path

import msgspec

MEMORY = 6 << 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--number", type=int, default=0)
    asked = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    feed(asked.name, asked.folder, seconds=asked.seconds, number=asked.number)


def feed(name: str, folder: Path, *, seconds: float, number: int) -> None:
    """Feeds one target and tells what came of it."""
    from tests.fuzz.drivers import by_coverage, by_shape, has_atheris, some_by_shape
    from tests.fuzz.feeding import Feeder
    from tests.fuzz.target import target_named

    if has_atheris():
        import atheris

        with atheris.instrument_imports(include=["holdfast"]):
            target = target_named(name)
    else:
        target = target_named(name)
    feeder = Feeder(target, last=folder / "last")

    def tell() -> None:
        (folder / "told.json").write_bytes(msgspec.json.encode(feeder.told))

    for one in target.seeds:
        feeder.warm(one)
    if target.sealed and not target.seeds:
        some_by_shape(target, _Warming(feeder), number=0, most=50)  # type: ignore[arg-type]
    if target.seeds and has_atheris():
        corpus = folder / "corpus"
        corpus.mkdir(exist_ok=True)
        by_coverage(target, feeder, seconds=seconds, number=number, corpus=corpus, tell=tell)
    by_shape(target, feeder, seconds=seconds, number=number)
    tell()


class _Warming:
    def __init__(self, feeder: object) -> None:
        self.feed = feeder.warm  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
