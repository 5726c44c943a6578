"""Submits documents on and on, until it is killed: `python -m tests.faults.submitting URL`."""

from __future__ import annotations

import os
import sys

import holdfast
from holdfast.core.model import NewDocument
from tests.faults import program

BATCH = "lab-batch"
TOGETHER = 40
"""How many are submitted at once. They are taken in together, or not at all."""
MOST = 1000
"""How often. Nobody comes to the end before it is killed."""


def main(url: str) -> None:
    with holdfast.open(url) as store:
        for part in range(MOST):
            documents = {f"{os.getpid()}-{part}-{one}": {"pages": 1, "takes": 0.001} for one in range(TOGETHER)}
            operation = program.recorder.invoke("submit", batch=BATCH, documents=documents)
            new = [NewDocument(key, payload) for key, payload in documents.items()]
            holdfast.submit(program.lab, store, batch=BATCH, documents=new)
            program.recorder.complete(operation)


if __name__ == "__main__":
    main(sys.argv[1])
