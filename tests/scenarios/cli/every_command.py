"""A program that runs commands with a stdout that cannot be written, each in a fork of its own.

It prints JSON: for each command and each kind of stdout the exit code, and what was written to stderr. The imports are
done once, so that a command takes milliseconds.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import holdfast.cli
from holdfast.cli.app import every_command

STDOUTS = ("good", "full", "closed", "broken pipe")
PRELOADED = (
    "holdfast.stores.sqlite",
    "holdfast.engine.worker",
    "holdfast.ops.explain",
    "holdfast.ops.capsule_export",
    "concurrent.futures.thread",
)
"""What most commands import: a fork inherits it."""
BEFORE = [
    ["run", "papers.py", "docs"],
    ["doc", "pack", "docs/a.txt", "-o", "before.capsule"],
]
COMMANDS = [
    ["--version"],
    ["--help"],
    ["nonsense"],
    ["run", "papers.py", "docs"],
    ["run", "papers.py", "docs", "--json"],
    ["run", "loud.py", "docs"],
    ["submit", "papers.py", "docs"],
    ["work", "papers.py", "--drain"],
    ["pipeline", "check", "papers.py"],
    ["plan", "papers.py"],
    ["status"],
    ["status", "--json"],
    ["show", "docs/a.txt", "--items"],
    ["show", "docs/a.txt", "--json"],
    ["show", "nothing"],
    ["explain", "docs/bad.txt"],
    ["dead", "list"],
    ["dead", "list", "--json"],
    ["dead", "show", "docs/bad.txt"],
    ["review", "list"],
    ["doc", "orphans"],
    ["pipeline", "verify", "papers.py"],
    ["batch", "reconcile", "papers"],
    ["batch", "seal", "papers", "default"],
    ["batch", "cleanup", "papers", "--dry-run"],
    ["doc", "pack", "docs/a.txt", "-o", "-"],
    ["doc", "load", "before.capsule", "--store", "sqlite:///new.db"],
    ["store", "migrate"],
    ["doc", "pause", "docs/a.txt", "--reason", "wait"],
    ["batch", "close", "papers.py", "default"],
    ["doc", "cancel", "--batch", "default", "--reason", "no"],
]


def run(args: list[str], stdout: str) -> tuple[int, str]:
    """Run one command in a fork. Return its exit code and what it wrote to stderr."""
    with tempfile.TemporaryFile() as errors:
        pid = os.fork()
        if not pid:
            _become(args, stdout, errors.fileno())
        _, status = os.waitpid(pid, 0)
        errors.seek(0)
        return os.waitstatus_to_exitcode(status), errors.read().decode()


def _become(args: list[str], stdout: str, errors: int) -> None:
    code: object = 70
    try:
        os.dup2(errors, 2)
        if stdout == "closed":
            os.close(1)
            sys.stdout = None  # type: ignore[assignment]  # as Python does it at its start
        else:
            os.dup2(_descriptor(stdout), 1)
        sys.argv = ["holdfast", *args]
        holdfast.cli.main()
    except SystemExit as ended:
        code = ended.code
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # as Python does it at its end; an error here would be "Exception ignored"
        os._exit(code if isinstance(code, int) else 71)


def _descriptor(stdout: str) -> int:
    if stdout == "broken pipe":
        reader, writer = os.pipe()
        os.close(reader)
        return writer
    return os.open("/dev/full" if stdout == "full" else os.devnull, os.O_WRONLY)


def main() -> None:
    """Run all commands, and print what they did."""
    for module in PRELOADED:
        import_module(module)
    every_command()
    for earlier in BEFORE:
        run(earlier, "good")
    before = {file: file.read_bytes() for file in Path().iterdir() if ".db" in file.name or file.suffix == ".capsule"}
    found = []
    for args, stdout in _runs():
        for file in {*Path().glob("*.db*"), *Path().glob("*.capsule")} - {*before}:
            file.unlink()
        for file, content in before.items():
            file.write_bytes(content)
        code, said = run(args, stdout)
        found.append({"args": args, "stdout": stdout, "code": code, "stderr": said})
    json.dump(found, sys.stdout)


def _runs() -> Iterator[tuple[list[str], str]]:
    """Yield every command with every kind of stdout, and the help of all commands with a full one."""
    yield from ((args, stdout) for args in COMMANDS for stdout in STDOUTS)
    yield from (([*name.split(), "--help"], "full") for name in every_command())


if __name__ == "__main__":
    main()
