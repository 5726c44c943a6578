"""Containers: files whose entries are documents of their own. Mailboxes, archives and packed files.

    with open_container(path, "mbox") as mailbox:
        for entry in mailbox.entries():
            print(entry.name, entry.size)
        mailbox.extract(entry.position, target)

- `entries` yields the entries one after the other. Each says where the next one begins (`resume_at`), so a stopped run
  goes on there without reading what is before it, as far as the format allows.
- `extract` writes one entry to a file, by its position. Positions are JSON and are never paths: nothing is ever written
  to a place that a container names.
- Nothing is opened recursively here. An entry may be a container itself: detect its type and open it.

Each format has a module in this folder. A library is imported when the first container of its format is opened.
"""

from __future__ import annotations

from holdfast.containers.detect import CONTAINER_KINDS, ContainerKind, detect_container
from holdfast.containers.entry import Container, ContainerLimits, Entry
from holdfast.containers.open import open_container

__all__ = [
    "CONTAINER_KINDS",
    "Container",
    "ContainerKind",
    "ContainerLimits",
    "Entry",
    "detect_container",
    "open_container",
]
