"""Read every file of a folder, each in a process of its own with little memory and time, and print the result.

python -m tests.scenarios.document_search.read_folder FOLDER [--every N] prints a line of JSON for each file.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.file_type import detect_file_type
from holdfast.pipelines.rag.extract.parsers import attachments_of, page_count, pages_of
from tests.support import sample_files

MEMORY = 1_500 << 20
SECONDS = 60


def outcome(path: Path) -> dict[str, Any]:
    """Read a file as an ingest would: type, number of pages, pages, attachments."""
    try:
        kind = detect_file_type(path)
        count = page_count(path, kind)
        pages = list(pages_of(path, kind=kind))
        carried = [one.name for one in attachments_of(path, kind=kind)]
    except Reject as reason:
        return {"rejected": str(reason)}
    text = sum(len(page.text) for page in pages)
    return {"kind": kind, "count": count, "pages": len(pages), "characters": text, "carried": carried}


def in_a_child(path: Path) -> dict[str, Any]:
    """Read a file in a process with limited memory and time."""
    hears, says = os.pipe()
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))  # of the processor: others may have the machine
        try:
            said = outcome(path)
        except BaseException as error:
            said = {"failed": repr(error)}
        os.write(says, json.dumps(said).encode())
        os._exit(0)
    os.close(says)
    with os.fdopen(hears, "rb") as pipe:
        said = pipe.read()
    _, status, used = os.wait4(child, 0)
    if os.WIFSIGNALED(status) or not said:
        return {"failed": f"killed by signal {os.WTERMSIG(status)}"}
    return {**json.loads(said), "cpu": round(used.ru_utime + used.ru_stime, 2), "peak_mb": used.ru_maxrss // 1024}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--every", type=int, default=1, help="only each so manieth file")
    chosen = arguments.parse_args()
    load_libraries()
    paths = sorted(path for path in chosen.folder.iterdir() if path.suffix != ".csv")
    for path in paths[:: chosen.every]:
        sys.stdout.write(json.dumps({"file": path.name, **in_a_child(path)}) + "\n")
        sys.stdout.flush()


def load_libraries() -> None:
    """Read files of several types, so that libraries and models are loaded once and shared with the children."""
    with TemporaryDirectory() as folder:
        for content in (
            sample_files.scan(sample_files.picture("tides")),
            b"<html>tides",
            b"From: a@b\nTo: c@d\n\ntides",
        ):
            outcome(sample_files.write_file(Path(folder) / "file", content))


if __name__ == "__main__":
    main()
