"""A step of one's own inside document search: numbers of bank accounts never reach the index.

    python examples/redaction.py FOLDER

The step stands between extract and chunk. It is over pages, so it resumes at the next page like everything else. Under
another name it is another step: what was ingested before is redacted anew by the next ingest.
"""

from __future__ import annotations

import re
import sys

import msgspec

import holdfast
from holdfast.pipelines import rag

ACCOUNT = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b")


def redact(doc: holdfast.Document, page: rag.Page) -> rag.Page:
    """Blackens account numbers, and leaves every other character where it is, so that places stay right."""
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
