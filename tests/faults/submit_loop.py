"""Submit documents in a loop until the process is killed: `python -m tests.faults.submit_loop URL`."""

from __future__ import annotations

import os
import sys

import holdfast
from holdfast.core.model import NewDocument
from tests.faults import program

BATCH = "tolerant-batch"
DOCUMENTS_PER_SUBMIT = 40
"""How many documents are submitted in one call. All of them are stored, or none."""
MAX_SUBMITS = 1000
"""The length of the loop. The process is killed before the end."""


def main(url: str) -> None:
    with holdfast.open(url) as store:
        for part in range(MAX_SUBMITS):
            keys = [f"{os.getpid()}-{part}-{index}" for index in range(DOCUMENTS_PER_SUBMIT)]
            documents = {key: {"pages": 1, "takes": 0.001} for key in keys}
            operation = program.recorder.invoke("submit", batch=BATCH, documents=documents)
            new = [NewDocument(key, payload) for key, payload in documents.items()]
            holdfast.submit(program.tolerant, store, batch=BATCH, documents=new)
            program.recorder.complete(operation)


if __name__ == "__main__":
    main(sys.argv[1])
