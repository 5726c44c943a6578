"""Ingest a source: submit its new and changed files, rename the moved ones, and remove the deleted ones."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from importlib.util import find_spec
from itertools import groupby, islice

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.distribution import install_command
from holdfast.core.errors import HoldfastError
from holdfast.core.model import DocumentStatus, NewDocument
from holdfast.core.pipeline import Pipeline
from holdfast.engine import api
from holdfast.pipelines.rag.collections.metadata import Metadata, set_metadata
from holdfast.pipelines.rag.extract.limits import LIMITS
from holdfast.pipelines.rag.index import Index
from holdfast.pipelines.rag.ingest.attachments import is_attachment_of
from holdfast.pipelines.rag.ingest.file_changes import FileChange, compare_files
from holdfast.pipelines.rag.ingest.known_files import KnownFiles
from holdfast.pipelines.rag.ingest.source_documents import SourceDocuments
from holdfast.pipelines.rag.ingest.watcher import SourceSnapshot
from holdfast.sources import SkippedPath, Source, SourceFile, hash_file, key_filter, list_files
from holdfast.stores import files_of
from holdfast.stores.protocol import Store

SLICE = 500
"""How many changes are applied at once."""
ALL_CHANGE_KINDS = ("new", "changed", "back", "moved", "deleted", "touched", "unchanged", "unreadable")
"""The kinds of file changes, in the order in which they are shown."""
REQUIRED_PACKAGES = ("fsspec", "httpx2", "numpy", "pypdfium2", "selectolax")
"""Packages that nearly every file needs. Packages for models, images and messages are checked where they are used."""


class MissingExtra(HoldfastError):
    """A package of the extra `rag` is not installed. This is raised before every document fails because of it."""


def require_extra() -> None:
    """Raise MissingExtra if the packages of document search are not installed."""
    if missing := [name for name in REQUIRED_PACKAGES if find_spec(name) is None]:
        raise MissingExtra(
            f"document search needs packages that are not installed ({', '.join(missing)}): {install_command('rag')}"
        )


class ScanOptions(Struct, frozen=True, kw_only=True):
    """How a source is scanned, and the metadata of its documents.

    Attributes:
        ignore: Patterns of files to leave out, as in `.holdfastignore`.
        recursive: Also scan subfolders.
        allow_private: Allow URLs that lead to private networks.
        follow_symlinks: Also follow links that lead outside of a folder, and links to folders. Otherwise such links are
            skipped, and what was ingested through them before is removed.
        metadata: Names and values that the documents of the source can be filtered by. They replace the earlier ones,
            also for documents that are known already; no file is read again. A name with the value None is left out.
            None: the metadata stays the same.
    """

    ignore: Sequence[str] = ()
    recursive: bool = True
    allow_private: bool = False
    follow_symlinks: bool = False
    metadata: Metadata | None = None

    def list(self, source: Source, *, store: Store, report: Callable[[SkippedPath], None]) -> Iterator[SourceFile]:
        """Yield the files of a source as `list_files` does, without the files of the store itself.

        A store file that is itself the source is listed.

        Args:
            source: The source.
            store: The store.
            report: Called with each path that is skipped.

        Returns:
            The files, in the order in which they are found.
        """
        own = {str(path) for path in files_of(store.url)} if source.kind != "file" else set()
        files = list_files(
            source,
            ignore=self.ignore,
            recursive=self.recursive,
            allow_private=self.allow_private,
            follow_symlinks=self.follow_symlinks,
            report=report,
        )
        return (file for file in files if file.location not in own) if own else files


DEFAULT_SCAN = ScanOptions()


class SourceEmpty(HoldfastError):
    """A source that had files is suddenly empty. A disk that is not mounted is more likely than deleted files."""

    def __init__(self, documents: int) -> None:
        super().__init__(f"the source is empty now; its documents ({documents:,}) stay in the index")
        self.documents = documents


class SourceIngest:
    """Ingests the files of one source into one collection.

    Attributes:
        counts: How many changes of each kind were applied.
        skipped: Paths that could not be read.
        unreadable: Files that could not be read.
        described: How many documents have other metadata now.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        store: Store,
        index: Index,
        source: Source,
        scan: ScanOptions = DEFAULT_SCAN,
        *,
        snapshot: SourceSnapshot | None = None,
    ) -> None:
        """Prepare the ingest of a source.

        Args:
            pipeline: The pipeline of the collection.
            store: The store.
            index: The index.
            source: The source.
            scan: How the source is scanned.
            snapshot: The files of the source, from a `Watcher`. The source is not listed then. An empty snapshot is
                refused while files of the source are known.

        Raises:
            MissingExtra: The packages of document search are not installed.
        """
        require_extra()
        self._pipeline = pipeline
        self._store = store
        self._source = source
        self._scan = scan
        self._snapshot = snapshot
        self._files = KnownFiles(pipeline.name, source.root)
        self._documents = SourceDocuments(
            store,
            index,
            self._files,
            collection=pipeline.name,
            source=source.root,
            plan=lambda: store.declare(pipeline.shape()),
        )
        self._dead: list[DocumentStatus] = []
        self.counts: Counter[str] = Counter()
        self.skipped: list[SkippedPath] = []
        self.unreadable: list[FileChange] = []
        self.described = 0

    def changes(self) -> Iterator[FileChange]:
        """Yield what happened to the files of the source since the last ingest. Nothing is changed.

        Raises:
            SourceEmpty: The snapshot is empty, and files of the source are known.
        """
        with self._store.reading() as tx:
            files = self._files.load(tx)
        is_ours = key_filter(self._source)
        known = {key: file for key, file in files.items() if is_ours(key)}
        root = None if self._scan.follow_symlinks else self._source.root
        hash_of = partial(_content_hash, root=root, allow_private=self._scan.allow_private)
        self._dead = self._documents.find_dead_without_file()
        missed = {_location(document) for document in self._dead}
        compared = compare_files(self._list(), known, hash_of, looked_at=time.time_ns(), skipped=self.skipped)
        changes = (_back_if_missed(change, missed) for change in compared)
        if self._snapshot is None or self._snapshot.seen:
            return changes
        if any(changes):  # with no file listed, the only possible changes are deletions
            raise SourceEmpty(len(known))
        return iter(())

    def apply_changes(self, report: Callable[[FileChange], object] = lambda _: None) -> Counter[str]:
        """Apply all changes. After a kill, it can be called again: nothing is submitted twice.

        Args:
            report: Called with each change after it was applied.

        Returns:
            How many changes of each kind were applied.
        """
        self._save_metadata()
        for kind, group in groupby(self.changes(), key=lambda change: change.kind):
            changes = iter(group)
            while part := list(islice(changes, SLICE)):
                self._apply(kind, part)
                self.counts[kind] += len(part)
                for change in part:
                    report(change)
        return self.counts

    def _list(self) -> Iterable[SourceFile]:
        if self._snapshot is None:
            return self._scan.list(self._source, store=self._store, report=self.skipped.append)
        self.skipped += self._snapshot.skipped
        return self._snapshot.seen

    def _save_metadata(self) -> None:
        if self._scan.metadata is not None:
            with self._store.transaction() as tx:
                self.described = set_metadata(tx, self._pipeline.name, self._source.root, self._scan.metadata)

    def _apply(self, kind: str, changes: Sequence[FileChange]) -> None:
        match kind:
            case "new" | "changed":
                self._submit(changes)
            case "back":
                self._save(changes)
                present = {change.seen.location for change in changes if change.seen}
                self._documents.retry([document for document in self._dead if _location(document) in present])
            case "touched" | "unchanged":
                self._save(change for change in changes if change.now is not self._files.known.get(change.key))
            case "moved":
                self._documents.check_attachments()
                for change in changes:
                    self._move(change)
            case "deleted":
                self._documents.check_attachments()
                for change in changes:
                    self._documents.remove(change.key)
            case "unreadable":
                self.unreadable += changes

    def _submit(self, changes: Sequence[FileChange]) -> None:
        documents = [self._new_document(change) for change in changes]
        api.submit(self._pipeline, self._store, batch=self._source.root, documents=documents)
        self._save(changes)

    def _new_document(self, change: FileChange) -> NewDocument:
        assert change.seen is not None
        assert change.now is not None
        return NewDocument(change.key, make_payload(change.seen), self._files.fingerprint(change.now))

    def _save(self, changes: Iterable[FileChange]) -> None:
        files = [change.now for change in changes if change.now is not None]
        if files:
            with self._store.transaction() as tx:
                self._files.save(tx, files)

    def _move(self, change: FileChange) -> None:
        """Rename the document of a moved file. If that is not possible, submit it as a new one."""
        old = change.came_from
        if self._documents.rename(change):
            self._documents.retry([one for one in self._dead if one.key == old or is_attachment_of(one, old)])
        else:
            self._documents.remove(old)
            self._submit([change])


def make_payload(seen: SourceFile) -> dict[str, str]:
    """Return the payload of a document: the location and the name of its file."""
    return {"location": seen.location, "name": seen.key}


def _location(document: DocumentStatus) -> str | None:
    """Return the location of a document's file. The payload of a stranger's document may not have one."""
    location = document.payload.get("location") if isinstance(document.payload, dict) else None
    return location if isinstance(location, str) else None


def _back_if_missed(change: FileChange, missed: Container[str | None]) -> FileChange:
    """Return a change as `back` if its file has not changed, but was missing when it should have been read."""
    if change.kind not in ("unchanged", "touched") or change.seen is None or change.seen.location not in missed:
        return change
    return replace(change, kind="back")


def _content_hash(seen: SourceFile, *, root: str | None, allow_private: bool) -> str:
    """Return the hash of a file's content. For a file that is too large to be read: of its size, time and version."""
    if seen.size > LIMITS.file_bytes:
        return blake2b(f"{seen.size} {seen.mtime_ns} {seen.etag}".encode(), digest_size=32).hexdigest()
    return hash_file(seen, root=root, allow_private=allow_private)
