"""Taking in what a source has: new and changed files are submitted, moved ones renamed, deleted ones forgotten."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from itertools import groupby, islice

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.errors import HoldfastError, UnknownDocument
from holdfast.core.model import NewDocument, Standing
from holdfast.core.moves import Tx
from holdfast.core.pipeline import Pipeline
from holdfast.engine import api
from holdfast.pipelines.rag.carried import CARRIED, is_carried_by, mark_of
from holdfast.pipelines.rag.changes import Change, compare
from holdfast.pipelines.rag.extra import require_extra
from holdfast.pipelines.rag.files import Files, content_of
from holdfast.pipelines.rag.index import Index, Name
from holdfast.pipelines.rag.limits import LIMITS
from holdfast.pipelines.rag.metadata import Metadata, describe
from holdfast.pipelines.rag.sources import FileGone, Missed, Seen, Source, hash_of, listing, those_it_is_about
from holdfast.pipelines.rag.watching import Glance
from holdfast.pipelines.rag.withdrawing import DELETED, is_out, withdraw
from holdfast.stores import files_of
from holdfast.stores.protocol import Store, Which

SLICE = 500
"""How many changes are taken in at once."""
KINDS = ("new", "changed", "back", "moved", "deleted", "touched", "unchanged", "unreadable")
"""What may become of a file, in the order in which it is told."""
WHO = "ingest"
MOVED = "its file was moved"
BACK = "its file is there again"


class Looking(Struct, frozen=True, kw_only=True):
    """How a source is looked through, and what is said of it.

    metadata  what its documents are filtered by, also those that are known already, and they are not read again for it.
              It takes the place of what was said before; if nothing is given, that stays. A value of None is not said
    """

    ignore: Sequence[str] = ()
    recursive: bool = True
    allow_private: bool = False
    metadata: Metadata | None = None

    def list(self, source: Source, *, store: Store, report: Callable[[Missed], None]) -> Iterator[Seen]:
        """Gives the files of a source, as `listing` does, without the store's own, unless one was named itself."""
        own = {str(path) for path in files_of(store.url)} if source.kind != "file" else set()
        files = listing(
            source,
            ignore=self.ignore,
            recursive=self.recursive,
            allow_private=self.allow_private,
            report=report,
        )
        return (seen for seen in files if seen.location not in own) if own else files


AS_USUAL = Looking()


class NothingThere(HoldfastError):
    """A source that had files is empty all at once: sooner a disk that is away than files that were deleted."""

    def __init__(self, documents: int) -> None:
        super().__init__(f"nothing is there any more; what it had ({documents:,}) stays in the index")
        self.documents = documents


class Intake:
    """Takes the files of one source into one collection.

    With a glance of a `Watcher`, its files are those that are there, and nothing else is looked through. An empty one
    is refused while files of the source are known.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        store: Store,
        index: Index,
        source: Source,
        looking: Looking = AS_USUAL,
        *,
        glance: Glance | None = None,
    ) -> None:
        require_extra()
        self._glance = glance
        self._pipeline = pipeline
        self._store = store
        self._index = index
        self._source = source
        self._looking = looking
        self._files = Files(pipeline.name, source.root)
        self.missed: list[Missed] = []
        self.unreadable: list[Change] = []
        self.counts: Counter[str] = Counter()
        self._lost: list[Standing] = []
        self._some_carry = True
        self.described = 0
        """How many documents are filtered by other metadata than before."""

    def changes(self) -> Iterator[Change]:
        """Tells what became of the source's files since the last time. Changes nothing."""
        with self._store.reading() as tx:
            files = self._files.read(tx)
        is_ours = those_it_is_about(self._source)
        known = {key: file for key, file in files.items() if is_ours(key)}
        hashed = partial(_content, allow_private=self._looking.allow_private)
        self._lost = self._died_while_away()
        away = {_location(one) for one in self._lost}
        compared = compare(self._seen(), known, hashed, looked_at=time.time_ns(), missed=self.missed)
        changes = (_back(one) if one.seen and one.seen.location in away else one for one in compared)
        if self._glance is None or self._glance.seen:
            return changes
        if any(changes):  # with nothing seen, all that can have become of files is that they are gone
            raise NothingThere(len(known))
        return iter(())

    def _died_while_away(self) -> list[Standing]:
        """Finds the documents of the source that are dead because their files were not there to be read."""
        lost: list[Standing] = []
        after = 0
        place: Which = {"batch": self._source.root, "state": "dead", "error": FileGone.__name__}
        while some := self._store.select(self._pipeline.name, **place, after=after):
            after = some[-1]
            lost += self._store.look(some)
        return lost

    def _seen(self) -> Iterable[Seen]:
        if self._glance is None:
            return self._looking.list(self._source, store=self._store, report=self.missed.append)
        self.missed += self._glance.missed
        return self._glance.seen

    def take_in(self, tell: Callable[[Change], object] = lambda _: None) -> Counter[str]:
        """Takes everything in that changed. Killed anywhere, it can be called again: nothing is taken in twice."""
        self._describe()
        for kind, some in groupby(self.changes(), key=lambda change: change.kind):
            changes = iter(some)
            while part := list(islice(changes, SLICE)):
                self._take(kind, part)
                self.counts[kind] += len(part)
                for change in part:
                    tell(change)
        return self.counts

    def _describe(self) -> None:
        if self._looking.metadata is not None:
            with self._store.transaction() as tx:
                self.described = describe(tx, self._pipeline.name, self._source.root, self._looking.metadata)

    def _take(self, kind: str, changes: Sequence[Change]) -> None:
        match kind:
            case "new" | "changed":
                self._submit(changes)
            case "back":
                self._keep(changes)
                there = {change.seen.location for change in changes if change.seen}
                self._try_again([one for one in self._lost if _location(one) in there])
            case "touched" | "unchanged":
                self._keep(change for change in changes if change.now is not self._files.known.get(change.key))
            case "moved":
                self._look_for_carried()
                self._rename(changes)
            case "deleted":
                self._look_for_carried()
                self._forget(changes)
            case "unreadable":
                self.unreadable += changes

    def _try_again(self, lost: Sequence[Standing]) -> None:
        self._store.redrive([one.id for one in lost], who=WHO, reason=BACK)

    def _submit(self, changes: Sequence[Change]) -> None:
        documents = [self._document(change) for change in changes]
        api.submit(self._pipeline, self._store, batch=self._source.root, documents=documents)
        self._keep(changes)

    def _document(self, change: Change) -> NewDocument:
        assert change.seen is not None
        assert change.now is not None
        return NewDocument(change.key, payload_of(change.seen), self._files.mark(change.now))

    def _keep(self, changes: Iterable[Change]) -> None:
        files = [change.now for change in changes if change.now is not None]
        if files:
            with self._store.transaction() as tx:
                self._files.keep(tx, files)

    def _rename(self, changes: Sequence[Change]) -> None:
        """Has documents go on under their new keys, with all that was made of them. What cannot is taken in anew."""
        for change in changes:
            old = change.came_from
            if self._renamed(change):
                self._try_again([one for one in self._lost if one.key == old or is_carried_by(one, old)])
            else:
                self._forget_keys([old])
                self._submit([change])

    def _renamed(self, change: Change) -> bool:
        """Has a document go by its new key, and what went by that go by the old one, as gone. Answers whether it does.

        Work on what goes is stopped first. Then both, the index and what is known of the files change at once.
        """
        assert change.now is not None
        old, new, now = change.came_from, change.key, change.now
        coming = self._at_its_new_place(change)
        if not coming:
            return False
        going = {one.key: NewDocument(old + one.key.removeprefix(new), one.payload) for one in self._withdraw(new)}

        def at_once(tx: Tx, renamed: Sequence[str]) -> None:
            if old not in renamed:
                return
            for key in renamed:
                if key in going:
                    self._index.forget(tx, self._name(key))
            for key in renamed:
                if key in coming:
                    self._index.rename(tx, self._name(key), to=coming[key].key)
            self._files.forget(tx, [*{old, *(going[key].key for key in renamed if key in going)}])
            self._files.keep(tx, [now])

        place = (self._pipeline.name, self._source.root)
        return old in self._store.rename(*place, coming | going, who=WHO, reason=MOVED, effect=at_once)

    def _at_its_new_place(self, change: Change) -> dict[str, NewDocument]:
        """Gives a moved document, and those that it carried, as they are from now on, by the keys that they had.

        Those that are not of its content, or are out, have no fingerprint: nothing that comes later is taken for them.
        Gives nothing if that is so of the document itself.
        """
        assert change.seen is not None
        assert change.now is not None
        old, new, content = change.came_from, change.key, change.now.hash
        family = sorted(self._family(old), key=lambda one: len(one.key))
        if not family or is_out(family[0]) or content_of(family[0].fingerprint) != content:
            return {}
        keys = [new + one.key.removeprefix(old) for one in family]
        with self._store.reading() as tx:
            times = self._files.times(tx, keys)
        marks = {new: self._files.mark(change.now)}
        documents = {}
        for one, key, often in zip(family, keys, times, strict=True):
            if key != new:
                carrier = max((known for known in marks if key.startswith(known + CARRIED)), key=len)
                marks[key] = mark_of(marks[carrier], often)
            payload = one.payload | {"location": change.seen.location} | ({"name": key} if key == new else {})
            is_current = content_of(one.fingerprint) == content and not is_out(one)
            documents[one.key] = NewDocument(key, payload, marks[key] if is_current else "")
        return documents

    def _withdraw(self, key: str) -> list[Standing]:
        """Stops work on a document, and on those that it carried, so that no worker writes any more. Gives them."""
        plan = self._store.declare(self._pipeline.shape())
        with self._store.transaction() as tx:
            self._files.doubt(tx, [key])
        family = self._family(key)
        withdraw(self._store, plan, [one.id for one in family], who=WHO, reason=DELETED)
        return family

    def _forget(self, changes: Sequence[Change]) -> None:
        self._forget_keys([change.key for change in changes])

    def _forget_keys(self, keys: Sequence[str]) -> None:
        """Stops work on documents first; then they leave the index."""
        for key in keys:
            family = self._withdraw(key)
            with self._store.transaction() as tx:
                for one in family:
                    self._index.forget(tx, self._name(one.key))
                self._files.forget(tx, [key, *(one.key for one in family if one.key != key)])

    def _look_for_carried(self) -> None:
        """Sees whether any document of the source carried others: to look for each takes a walk over all documents."""
        carried = f"*{CARRIED}*"
        self._some_carry = bool(self._store.select(self._pipeline.name, batch=self._source.root, key=carried, limit=1))

    def _family(self, key: str) -> list[Standing]:
        """Finds a document, and those that it carried."""
        place = (self._pipeline.name, self._source.root)
        try:
            family = [self._store.standing(*place, key)]
        except UnknownDocument:
            return []
        after = 0
        while self._some_carry and (
            some := self._store.select(place[0], batch=place[1], key=f"{key}{CARRIED}*", after=after)
        ):
            after = some[-1]
            family += [one for one in self._store.look(some) if is_carried_by(one, key)]
        return family

    def _name(self, key: str) -> Name:
        return Name(self._pipeline.name, self._source.root, key)


def _location(one: Standing) -> str | None:
    """Says where the file of a document is. What strangers wrote may not say it."""
    said = one.payload.get("location") if isinstance(one.payload, dict) else None
    return said if isinstance(said, str) else None


def _back(change: Change) -> Change:
    return replace(change, kind="back") if change.kind in ("unchanged", "touched") else change


def payload_of(seen: Seen) -> dict[str, str]:
    """Gives what a document carries: where its file is, and what it is called."""
    return {"location": seen.location, "name": seen.key}


def _content(seen: Seen, *, allow_private: bool) -> str:
    """Gives what the content of a file is known by: its hash; its signs where it is so large that it is rejected."""
    if seen.size > LIMITS.file_bytes:
        return blake2b(f"{seen.size} {seen.mtime_ns} {seen.etag}".encode(), digest_size=32).hexdigest()
    return hash_of(seen, allow_private=allow_private)
