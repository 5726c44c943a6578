"""One target in a process of its own: `python -m tests.fuzz.child NAME FOLDER --seconds S --number N`.

It leaves `told.json` in the folder; one that dies leaves what it died of in `last`.
"""

from __future__ import annotations

import argparse
import resource
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
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
    from tests.fuzz.drivers import by_coverage, by_shape, has_atheris, warm
    from tests.fuzz.feeding import Feeder
    from tests.fuzz.target import target_named

    with _instrumenting():
        target = target_named(name)
        feeder = Feeder(target, last=folder / "last")
        warm(target, feeder)

    def tell() -> None:
        (folder / "told.json").write_bytes(msgspec.json.encode(feeder.told))

    if target.seeds and has_atheris():
        corpus = folder / "corpus"
        corpus.mkdir(exist_ok=True)
        by_coverage(target, feeder, seconds=seconds, number=number, corpus=corpus, tell=tell)
    by_shape(target, feeder, seconds=seconds, number=number)
    tell()


def _instrumenting() -> AbstractContextManager[object]:
    """Has atheris see which lines of ours are reached, also in modules that are imported only when they are needed."""
    if find_spec("atheris") is None:
        return nullcontext()
    import atheris

    return atheris.instrument_imports(include=["holdfast"])  # type: ignore[no-any-return]


if __name__ == "__main__":
    main()
