"""Document search with a custom step: numbers of bank accounts never reach the index.

    python examples/redaction.py FOLDER

The step is between extract and chunk. It works over pages, so it resumes at the next page. With another name it would
be another step, and the next ingest would redact earlier documents again.
"""

from __future__ import annotations

import re
import sys

import msgspec

import holdfast
from holdfast.pipelines import rag

ACCOUNT = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b")


def redact(doc: holdfast.Document, page: rag.Page) -> rag.Page:
    """Replace account numbers by blocks of the same length, so that positions in the page stay right."""
    return msgspec.structs.replace(page, text=ACCOUNT.sub(lambda found: "█" * len(found[0]), page.text))


def library(store) -> rag.Library:
    return rag.Library(store, "redacted", pages=[redact])


def main(folder: str) -> None:
    with holdfast.open("sqlite:///redacted.db") as store:
        print(library(store).ingest(folder))
        for found in library(store).search("bank account number", limit=3):
            print(f"{found.key}, page {found.page}: {found.snippet}")


if __name__ == "__main__":
    main(sys.argv[1])
