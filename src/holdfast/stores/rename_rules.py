"""Which documents can be renamed, and how the manifest names them then."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from holdfast.core.codec import unkept
from holdfast.core.model import NewDocument, State

Parts = Sequence[tuple[int, int, list[str]]]
"""Parts of a manifest: (submission, part, keys) of each."""


class Renames:
    """The renames of one call. No two documents of a batch have one key, also among those that are renamed together."""

    def __init__(self, documents: Mapping[str, NewDocument]) -> None:
        self._wanted = {old: new for old, new in documents.items() if old != new.key and unkept(old) is None}

    @property
    def keys(self) -> list[str]:
        """The keys to look up: the old ones, and the new ones, which may be taken."""
        return [*{*self._wanted, *(new.key for new in self._wanted.values())}]

    def possible(self, taken: Collection[str]) -> dict[str, NewDocument]:
        """Return the renames that can be done, given the keys that are taken: a key is free if its document leaves it.

        If several documents want one key, the first gets it.
        """
        known = {old: new for old, new in self._wanted.items() if old in taken}
        first = {new.key: old for old, new in reversed(known.items())}
        going = {old: new for old, new in known.items() if first[new.key] == old}
        while stay := [old for old, new in going.items() if new.key in taken and new.key not in going]:
            for old in stay:
                del going[old]
        return going


def keys_to_free(going: Mapping[str, NewDocument]) -> list[str]:
    """Return the old keys that other documents get in the same call: they are freed first, so that none is twice."""
    wanted = {new.key for new in going.values()}
    return [old for old in going if old in wanted]


def state_after(state: State) -> State:
    """Return the state of a renamed document. A running one is taken from its worker, which has the old payload."""
    return "waiting" if state == "running" else state


def rename_detail(old: str, new: str, state: State, *, reason: str) -> dict[str, Any]:
    """Return the journal detail of a rename."""
    return {"from": old, "to": new, "reason": reason, "was": state, "state": state_after(state)}


def names_all(parts: Parts, going: Mapping[str, NewDocument]) -> bool:
    """Return True if these parts of a manifest contain all documents that are renamed, by their old keys."""
    return going.keys() <= {key for _, _, keys in parts for key in keys}


def with_new_keys(keys: Sequence[str], going: Mapping[str, NewDocument]) -> list[str]:
    """Return the keys of a manifest with the new keys of renamed documents, so that none of them is missing."""
    return [going[key].key if key in going else key for key in keys]
