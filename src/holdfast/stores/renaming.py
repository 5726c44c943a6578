"""What it means to rename documents: which go on under other keys, and what the manifest says of them then."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from holdfast.core.codec import unkept
from holdfast.core.model import NewDocument, State

Parts = Sequence[tuple[int, int, list[str]]]
"""Parts of a manifest: (submission, part, keys) of each."""


class Renaming:
    """The renames of one call. No two documents of a batch have one key, also among those that are renamed together."""

    def __init__(self, documents: Mapping[str, NewDocument]) -> None:
        self._asked = {old: one for old, one in documents.items() if old != one.key and unkept(old) is None}

    @property
    def keys(self) -> list[str]:
        """Which keys to look for: the old ones, and the new ones, which may be taken."""
        return [*{*self._asked, *(one.key for one in self._asked.values())}]

    def among(self, there: Collection[str]) -> dict[str, NewDocument]:
        """Says which documents are renamed, given the keys that are there: a key is free when its holder leaves it.

        Of several that want one key, the first gets it.
        """
        here = {old: one for old, one in self._asked.items() if old in there}
        first = {one.key: old for old, one in reversed(here.items())}
        going = {old: one for old, one in here.items() if first[one.key] == old}
        while stay := [old for old, one in going.items() if one.key in there and one.key not in going]:
            for old in stay:
                del going[old]
        return going


def in_the_way(going: Mapping[str, NewDocument]) -> list[str]:
    """Names the documents whose keys others get in the same call: they leave them first, as a key is nobody's twice."""
    wanted = {one.key for one in going.values()}
    return [old for old in going if old in wanted]


def state_after(state: State) -> State:
    """Gives the state of a renamed document. One that runs is taken from its worker, which has the old payload."""
    return "waiting" if state == "running" else state


def line_of(old: str, new: str, state: State, *, reason: str) -> dict[str, Any]:
    """Says in the journal what a document was called, and why that changed."""
    return {"from": old, "to": new, "reason": reason, "was": state, "state": state_after(state)}


def names_all(parts: Parts, going: Mapping[str, NewDocument]) -> bool:
    """Answers whether these parts of a manifest name all documents that are renamed, by their old keys."""
    return going.keys() <= {key for _, _, keys in parts for key in keys}


def with_new_names(keys: Sequence[str], going: Mapping[str, NewDocument]) -> list[str]:
    """Gives the keys of a manifest as they are from now on: who is renamed is not missing."""
    return [going[key].key if key in going else key for key in keys]
