"""Feed one target in a process: `python -m tests.fuzz.child NAME FOLDER --seconds S --number N`.

The process writes `result.json` into the folder. If it dies, the file `last` has the input that it died of.
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
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    feed(args.name, args.folder, seconds=args.seconds, number=args.number)


def feed(name: str, folder: Path, *, seconds: float, number: int) -> None:
    """Feed one target and write its result."""
    from tests.fuzz.drivers import feed_by_coverage, feed_by_shape, has_atheris, warm_up
    from tests.fuzz.runner import Feeder
    from tests.fuzz.target import target_named

    with _instrumenting():
        target = target_named(name)
        feeder = Feeder(target, last=folder / "last")
        warm_up(target, feeder)

    def write_result() -> None:
        (folder / "result.json").write_bytes(msgspec.json.encode(feeder.result))

    if target.seeds and has_atheris():
        corpus = folder / "corpus"
        corpus.mkdir(exist_ok=True)
        feed_by_coverage(target, feeder, seconds=seconds, number=number, corpus=corpus, write_result=write_result)
    feed_by_shape(target, feeder, seconds=seconds, number=number)
    write_result()


def _instrumenting() -> AbstractContextManager[object]:
    """Let atheris record the coverage of holdfast, also of modules that are imported later."""
    if find_spec("atheris") is None:
        return nullcontext()
    import atheris

    return atheris.instrument_imports(include=["holdfast"])  # type: ignore[no-any-return]


if __name__ == "__main__":
    main()
