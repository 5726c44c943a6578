"""The library: ingest and search as a new user would, and what happens when files change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import holdfast
from holdfast.observe.events import Committed
from holdfast.pipelines import rag
from holdfast.pipelines.rag.collections.settings import NoSuchCollection
from holdfast.pipelines.rag.collections.status import read_status
from holdfast.pipelines.rag.search.search import By
from holdfast.sources import SourceRefused
from holdfast.stores.protocol import Store

SMALLER = rag.CollectionSettings(embedder="hash:16", splitting=rag.Splitting(size=500, overlap=50))

pytest.importorskip("numpy", reason="document search needs the extra rag")
BY: tuple[By | None, ...] = ("words", "meaning", None)
Image = pytest.importorskip("PIL.Image", reason="pictures need the extra rag")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "tides.txt").write_text("On tides\n\nThe spring tide comes twice a month, at new and at full moon.")
    (folder / "anchors.md").write_text("# Anchors\n\nAn anchor of twenty kilos holds a boat of ten metres in sand.")
    return folder


@pytest.fixture
def library(store: Store) -> rag.Library:
    return opened(store)


def opened(store: Store) -> rag.Library:
    return rag.Library(store, settings=rag.CollectionSettings(embedder="hash:64"))


def keys(library: rag.Library, question: str) -> list[str]:
    return [found.key for found in library.search(question, each=1)]


def test_an_ingested_text_is_found_with_its_page_and_position(library: rag.Library, folder: Path) -> None:
    assert library.ingest(str(folder)).done == 2
    found = library.search("how heavy an anchor for a boat in sand")[0]
    assert (found.key, found.page, found.title, found.kind) == ("anchors.md", 1, "Anchors", "markdown")
    assert found.text == (folder / "anchors.md").read_text()[found.start : found.end]
    assert {found.snippet[a:b].lower() for a, b in found.marks} >= {"anchor", "boat", "sand"}
    assert found.by_words == 1
    assert found.by_meaning is not None


def test_an_unchanged_file_is_not_read_again(library: rag.Library, folder: Path) -> None:
    library.ingest(str(folder))
    assert library.submit_changes(str(folder)).counts == {"unchanged": 2}
    assert library.ingest(str(folder)).done == 0


@pytest.mark.parametrize(("pages_per_commit", "together"), [(1, [1, 1, 1, 1, 1]), (2, [2, 2, 1])])
def test_a_collection_sets_how_many_pages_are_committed_together(
    store: Store, tmp_path: Path, pages_per_commit: int, together: list[int]
) -> None:
    tiff = tmp_path / "five.tiff"
    first, *others = [Image.new("L", (60, 40), 255) for _ in range(5)]
    first.save(tiff, save_all=True, append_images=others)
    library = rag.Library(store, settings=rag.CollectionSettings(embedder="hash:64", pages_per_commit=pages_per_commit))
    kept: list[int] = []

    def listen(event: object) -> None:
        if isinstance(event, Committed):
            kept.extend(len(move.items) for move in event.moves if move.items and move.items[0].step == "extract")

    assert library.ingest(str(tiff), listeners=[listen]).done == 1
    assert kept == together


def test_another_number_of_pages_per_commit_reprocesses_nothing(library: rag.Library, folder: Path) -> None:
    library.ingest(str(folder))
    more = rag.Library(library.store, settings=rag.CollectionSettings(embedder="hash:64", pages_per_commit=7))
    assert more.ingest(str(folder)).done == 0


def test_a_changed_file_replaces_its_old_version(library: rag.Library, folder: Path) -> None:
    library.ingest(str(folder))
    (folder / "tides.txt").write_text("On ebb\n\nNeap tides follow the half moon, and are the weakest of all.")
    assert library.submit_changes(str(folder)).counts == {"unchanged": 1, "changed": 1}
    assert "spring" in library.search("tide moon")[0].text, "the old version is seen until the new one is complete"
    assert library.ingest(str(folder)).warnings == ()
    assert [found.text for found in library.search("spring tide moon") if "spring" in found.text] == []
    assert keys(library, "neap tides")[0] == "tides.txt"


def test_a_file_that_lost_its_text_is_not_found_by_its_old_text(library: rag.Library, folder: Path) -> None:
    page = folder / "buoys.html"
    page.write_text("<html><body><p>Buoys mark the channel.</p></body></html>")
    library.ingest(str(folder))
    assert keys(library, "buoys mark the channel")[0] == "buoys.html"
    page.write_text("<html><body><p> </p></body></html>")
    assert library.ingest(str(folder)).done == 1
    assert "buoys.html" not in keys(library, "buoys mark the channel")
    page.write_text("<html><body><p>Buoys mark the channel again.</p></body></html>")
    library.ingest(str(folder))
    assert keys(library, "buoys mark the channel")[0] == "buoys.html"


def test_a_deleted_file_leaves_the_index_and_can_come_back(library: rag.Library, folder: Path) -> None:
    library.ingest(str(folder))
    text = (folder / "tides.txt").read_text()
    (folder / "tides.txt").unlink()
    assert library.submit_changes(str(folder)).counts == {"unchanged": 1, "deleted": 1}
    assert "tides.txt" not in keys(library, "spring tide moon")
    assert read_status(library.store, "documents").states == {"COMPLETED": 1}
    (folder / "tides.txt").write_text(text)
    library.ingest(str(folder))
    assert keys(library, "spring tide moon")[0] == "tides.txt"


def test_a_deleted_file_stays_out_when_others_are_reprocessed(library: rag.Library, folder: Path) -> None:
    library.ingest(str(folder))
    (folder / "tides.txt").unlink()
    library.ingest(str(folder))
    smaller = rag.Library(library.store, settings=SMALLER)
    assert smaller.ingest(str(folder)).done == 1
    assert keys(smaller, "spring tide moon") == ["anchors.md"]
    assert holdfast.verify(smaller.pipeline, library.store).gone == 0
    assert library.store.balance("documents").done == 1


@pytest.fixture
def two_folders(folder: Path) -> Path:
    """A second folder, with a message that has an attachment and a PDF that cannot be read."""
    other = folder.parent / "mail"
    other.mkdir()
    message = EmailMessage()
    message["Subject"] = "Buoys"
    message.set_content("The buoys are listed below.")
    message.add_attachment("Seven buoys mark the channel.", filename="list.txt")
    (other / "buoys.eml").write_bytes(bytes(message))
    (other / "broken.pdf").write_bytes(b"%PDF-1.7 and nothing else")
    return other


@pytest.fixture
def each_library(each_store: Store) -> Iterator[rag.Library]:
    """A library in a SQLite store and in a PostgreSQL store, one after the other."""
    with closing(opened(each_store)) as library:
        yield library


def test_all_documents_of_a_source_can_be_forgotten(each_library: rag.Library, folder: Path, two_folders: Path) -> None:
    library, store = each_library, each_library.store
    library.ingest(str(folder))
    library.ingest(str(two_folders))
    assert library.forget(str(two_folders)) == 3
    assert set(keys(library, "seven buoys mark the channel")) == {"anchors.md", "tides.txt"}
    assert read_status(store, "documents").sources == {str(folder): 2}
    assert read_status(store, "documents").states == {"COMPLETED": 2}
    assert library.count_withdrawn() == 3
    assert store.balance("documents").balances


def test_results_have_the_metadata_of_their_pages(each_store: Store, folder: Path) -> None:
    def read(payload: Any, *, start: int) -> Iterator[rag.Page]:
        for number in range(start + 1, 4):
            metadata = {"section": number, "draft": False} if number != 2 else {}
            yield rag.Page(
                number, f"Page {number} about tides", how="ocr", label="L" * (number == 3), metadata=metadata
            )

    settings = rag.CollectionSettings(embedder="hash:64")
    with closing(rag.Library(each_store, settings=settings, reader=read)) as library:
        library.ingest(str(folder / "tides.txt"))
        found = {one.page: one.page_metadata for one in library.search("tides")}
    assert found == {
        1: {"how": "ocr", "section": 1, "draft": False},
        2: {"how": "ocr"},
        3: {"how": "ocr", "label": "L", "section": 3, "draft": False},
    }


def test_metadata_of_a_page_that_is_no_plain_value_fails_its_document(store: Store, folder: Path) -> None:
    def read(payload: Any, *, start: int) -> Iterator[rag.Page]:
        yield rag.Page(1, "about tides", metadata={"nested": {"a": 1}})  # type: ignore[dict-item]

    settings = rag.CollectionSettings(embedder="hash:64")
    with closing(rag.Library(store, settings=settings, reader=read)) as library:
        assert library.ingest(str(folder / "tides.txt")).dead == 1
    (dead,) = store.documents("documents")
    assert (dead.checkpoint.step, dead.error) == ("extract", "CannotKeep")
    assert "item 0 of step 'extract' cannot be kept" in dead.reason


def test_a_page_step_can_add_metadata(store: Store, folder: Path) -> None:
    def mark(doc: holdfast.Document, page: rag.Page) -> rag.Page:
        return replace(page, metadata={"words": len(page.text.split())})

    settings = rag.CollectionSettings(embedder="hash:64")
    with closing(rag.Library(store, settings=settings, pages=[mark])) as library:
        library.ingest(str(folder / "tides.txt"))
        (found,) = library.search("tides", limit=1)
    assert found.page_metadata == {"words": len((folder / "tides.txt").read_text().split())}


def test_one_document_can_be_forgotten(each_library: rag.Library, folder: Path) -> None:
    library, store = each_library, each_library.store
    library.ingest(str(folder))
    assert library.forget(str(folder), document="tides.txt") == 1
    assert keys(library, "spring tide moon") == ["anchors.md"]
    assert read_status(store, "documents").states == {"COMPLETED": 1}
    forgotten = store.document("documents", str(folder), "tides.txt")
    assert (forgotten.state, forgotten.code) == ("cancelled", "document_forgotten")
    assert store.journal(forgotten.id)[-1].who == "forget"
    assert library.forget(str(folder), document="tides.txt") == 0
    assert library.ingest(str(folder)).done == 1, "its file is still there"
    assert keys(library, "spring tide moon")[0] == "tides.txt"


def test_a_forgotten_message_takes_its_attachments_with_it(
    each_library: rag.Library, folder: Path, two_folders: Path
) -> None:
    (two_folders / "buoys.eml#notes.txt").write_text("A file whose name looks like an attachment: seven buoys.")
    each_library.ingest(str(two_folders))
    assert each_library.forget(str(two_folders), document="buoys.eml") == 2
    assert keys(each_library, "seven buoys") == ["buoys.eml#notes.txt"]
    each_library.ingest(str(two_folders))
    assert set(keys(each_library, "seven buoys")) == {"buoys.eml", "buoys.eml#list.txt", "buoys.eml#notes.txt"}


def test_a_document_can_be_forgotten_before_it_is_processed(each_library: rag.Library, folder: Path) -> None:
    each_library.submit_changes(str(folder))
    assert each_library.forget(str(folder), document="tides.txt") == 1
    assert each_library.drain().done == 1
    assert keys(each_library, "spring tide moon") == ["anchors.md"]


def test_a_document_that_is_not_there_cannot_be_forgotten(each_library: rag.Library, folder: Path) -> None:
    each_library.ingest(str(folder))
    with pytest.raises(holdfast.UnknownDocument, match=r"no document 'anchors'"):
        each_library.forget(str(folder), document="anchors")
    with pytest.raises(SourceRefused):
        each_library.forget("elsewhere", document="anchors.md")
    assert len(keys(each_library, "spring tide anchor")) == 2


def test_a_document_that_only_the_index_still_has_can_be_forgotten(each_library: rag.Library, folder: Path) -> None:
    library = each_library
    library.ingest(str(folder))
    library.store.seal("documents", str(folder), who="ann", reason="all are there")
    holdfast.close(library.pipeline, library.store, batch=str(folder), who="ann", reason="read", cleanup=True)
    with pytest.raises(holdfast.UnknownDocument):
        library.store.document("documents", str(folder), "tides.txt")
    assert library.forget(str(folder), document="tides.txt") == 0
    assert keys(library, "spring tide moon") == ["anchors.md"]


@pytest.mark.parametrize("where", ["before", "inside", "after"])
def test_a_killed_forget_of_a_document_is_completed_by_the_next_or_undone_by_an_ingest(
    each_library: rag.Library, folder: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    library = each_library
    library.ingest(str(folder))

    def forget_and_be_killed() -> None:
        with monkeypatch.context() as killing:
            withdraw = library.store.withdraw

            def withdrawn(*args: Any, **kwargs: Any) -> Any:
                done = withdraw(*args, **kwargs)
                killing.setattr(library.store, "transaction", _killed)
                return done

            if where == "inside":
                killing.setattr(library.indexes.database, "delete_document", _killed)
            else:
                killing.setattr(library.store, "withdraw", _killed if where == "before" else withdrawn)
            with pytest.raises(KeyboardInterrupt):
                library.forget(str(folder), document="tides.txt")

    forget_and_be_killed()
    library.forget(str(folder), document="tides.txt")
    assert keys(library, "spring tide moon") == ["anchors.md"]
    assert library.ingest(str(folder)).done == 1
    forget_and_be_killed()
    library.ingest(str(folder))
    assert read_status(library.store, "documents").states == {"COMPLETED": 2}
    assert keys(library, "spring tide moon")[0] == "tides.txt"


def test_a_killed_forget_is_completed_by_the_next(
    each_library: rag.Library, two_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    each_library.ingest(str(two_folders), rag.ScanOptions(metadata={"client": "acme"}))
    with monkeypatch.context() as killing:
        killing.setattr("holdfast.pipelines.rag.collections.metadata.delete_metadata", _killed)
        with pytest.raises(KeyboardInterrupt):
            each_library.forget(str(two_folders))
    assert each_library.forget(str(two_folders)) == 0
    each_library.ingest(str(two_folders))
    assert each_library.search("buoys")[0].metadata == {}


@pytest.mark.parametrize("where", ["before", "inside", "after"])
def test_an_ingest_after_a_killed_forget_submits_all_again(
    library: rag.Library, folder: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """The process is killed before documents are withdrawn, in that transaction, or after it."""
    library.ingest(str(folder))
    with monkeypatch.context() as killing:
        withdraw = library.store.withdraw

        def withdrawn(*args: Any, **kwargs: Any) -> Any:
            done = withdraw(*args, **kwargs)
            killing.setattr(library.store, "transaction", _killed)
            return done

        if where == "inside":
            killing.setattr(library.indexes.database, "delete_document", _killed)
        else:
            killing.setattr(library.store, "withdraw", _killed if where == "before" else withdrawn)
        with pytest.raises(KeyboardInterrupt):
            library.forget(str(folder))
    states = {document.state for document in library.store.documents("documents")}
    assert states == ({"cancelled"} if where == "after" else {"done"})
    library.ingest(str(folder))
    assert read_status(library.store, "documents").states == {"COMPLETED": 2}
    assert set(keys(library, "spring tide anchor")) == {"tides.txt", "anchors.md"}


def test_a_killed_move_that_is_undone_changes_nothing(
    library: rag.Library, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.ingest(str(folder))
    (folder / "anchors.md").rename(folder.parent / "kept")
    (folder / "tides.txt").rename(folder / "anchors.md")
    with monkeypatch.context() as killing:
        killing.setattr(library.store, "rename", _killed)
        with pytest.raises(KeyboardInterrupt):
            library.submit_changes(str(folder))
    (folder / "anchors.md").rename(folder / "tides.txt")
    (folder.parent / "kept").rename(folder / "anchors.md")
    library.ingest(str(folder))
    assert read_status(library.store, "documents").states == {"COMPLETED": 2}
    assert keys(library, "how heavy an anchor")[0] == "anchors.md"


def test_an_attachment_of_a_moved_message_does_not_replace_a_file(library: rag.Library, folder: Path) -> None:
    message = EmailMessage()
    message["Subject"] = "Charts"
    message.set_content("See the chart.")
    message.add_attachment("Rocks lie north of the harbour.", filename="rocks.txt")
    (folder / "mail.eml").write_bytes(message.as_bytes())
    (folder / "letter.eml#rocks.txt").write_text("A lynx was seen.")
    library.ingest(str(folder))
    (folder / "mail.eml").rename(folder / "letter.eml")
    library.ingest(str(folder))
    assert "lynx" in library.search("a lynx was seen", by="words")[0].text
    assert holdfast.verify(library.pipeline, library.store).gone == 0


def test_a_source_can_be_forgotten_while_the_embedder_changes_and_nothing_else_is_embedded(
    library: rag.Library, folder: Path, two_folders: Path
) -> None:
    library.ingest(str(folder))
    library.ingest(str(two_folders))
    other = rag.Library(library.store, settings=rag.CollectionSettings(embedder="openai:text-embedding-3-small"))
    assert other.forget(str(two_folders)) == 3
    assert other.collection.searched is not None


def test_words_are_found_while_a_new_embedder_does_not_answer(
    library: rag.Library, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:9")
    library.ingest(str(folder))
    other = rag.Library(library.store, settings=rag.CollectionSettings(embedder="ollama:away"))
    for by in BY:
        assert other.search("spring tide", by=by)[0].key == "tides.txt"


def _killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_a_forgotten_source_comes_back_when_it_is_ingested_again(library: rag.Library, folder: Path) -> None:
    library.ingest(str(folder))
    library.forget(str(folder))
    assert keys(library, "spring tide moon") == []
    assert library.ingest(str(folder)).done == 2
    assert keys(library, "spring tide moon")[0] == "tides.txt"


def test_a_file_that_is_too_large_to_be_read_is_not_hashed_either(
    library: rag.Library, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (folder / "enormous.pdf").open("wb") as enormous:
        enormous.truncate(30 << 30)
    monkeypatch.setattr("holdfast.pipelines.rag.ingest.intake.hash_file", lambda seen, **_: seen.key)
    assert library.ingest(str(folder)).dead == 1
    (here,) = library.store.documents("documents", state="dead")
    assert "too large: 30,720 MiB" in here.reason
    assert library.submit_changes(str(folder)).counts == {"unchanged": 3}


def test_a_dead_letter_whose_file_is_deleted_is_withdrawn(library: rag.Library, folder: Path) -> None:
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 and nothing else")
    assert library.ingest(str(folder)).dead == 1
    (folder / "broken.pdf").unlink()
    library.ingest(str(folder))
    assert library.store.balance("documents").dead == 0
    assert read_status(library.store, "documents").documents == 2


def test_documents_of_a_deleted_collection_stay_out_of_the_next_one_of_its_name(store: Store, folder: Path) -> None:
    library = opened(store)
    library.ingest(str(folder))
    library.delete()
    (folder / "tides.txt").unlink()
    again = rag.Library(store, settings=SMALLER)
    assert again.ingest(str(folder)).done == 1
    assert keys(again, "spring tide moon") == ["anchors.md"]


def test_a_moved_file_is_not_read_again(library: rag.Library, folder: Path) -> None:
    library.ingest(str(folder))
    (folder / "old").mkdir()
    (folder / "tides.txt").rename(folder / "old" / "ebb-and-flow.txt")
    assert library.submit_changes(str(folder)).counts == {"unchanged": 1, "moved": 1}
    assert keys(library, "spring tide moon")[0] == "old/ebb-and-flow.txt"
    assert library.ingest(str(folder)).done == 0


def test_a_killed_move_is_completed_by_the_next_ingest(
    library: rag.Library, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.ingest(str(folder))
    (folder / "tides.txt").rename(folder / "ebb.txt")
    with monkeypatch.context() as patch:
        patch.setattr(library.index, "rename_document", _killed)
        with pytest.raises(KeyboardInterrupt):
            library.submit_changes(str(folder))
    again = opened(library.store)
    assert again.submit_changes(str(folder)).counts == {"unchanged": 1, "moved": 1}
    assert keys(again, "spring tide moon")[0] == "ebb.txt"
    assert again.ingest(str(folder)).done == 0


def test_a_moved_file_may_get_the_name_of_a_deleted_one(library: rag.Library, folder: Path) -> None:
    library.ingest(str(folder))
    (folder / "anchors.md").unlink()
    library.ingest(str(folder))
    (folder / "tides.txt").rename(folder / "anchors.md")
    library.ingest(str(folder))
    assert set(keys(library, "spring tide moon")) == {"anchors.md"}


def test_a_copy_that_gets_the_name_of_a_deleted_file_is_not_read_again(library: rag.Library, folder: Path) -> None:
    (folder / "copy.txt").write_bytes((folder / "tides.txt").read_bytes())
    library.ingest(str(folder))
    (folder / "tides.txt").unlink()
    library.ingest(str(folder))
    (folder / "copy.txt").rename(folder / "tides.txt")
    assert library.ingest(str(folder)).done == 0
    assert library.store.document("documents", str(folder), "tides.txt").state == "done"
    assert library.store.document("documents", str(folder), "copy.txt").state == "cancelled"
    (folder / "tides.txt").unlink()
    library.ingest(str(folder))
    assert keys(library, "spring tide moon") == ["anchors.md"]


def test_a_file_that_is_moved_over_another_is_not_read_again(library: rag.Library, folder: Path) -> None:
    library.ingest(str(folder))
    (folder / "tides.txt").rename(folder / "anchors.md")
    assert library.ingest(str(folder)).done == 0
    assert keys(library, "spring tide moon") == ["anchors.md"]
    assert "tide" in library.search("spring tide moon")[0].text


def test_attachments_are_documents_of_their_own(library: rag.Library, folder: Path) -> None:
    inner = EmailMessage()
    inner["Subject"] = "Fenders"
    inner.set_content("Fenders keep the hull off the quay.")
    message = EmailMessage()
    message["Subject"] = "Charts"
    message.set_content("See the chart.")
    message.add_attachment("Rocks lie north of the harbour.", filename="rocks.txt")
    message.add_attachment(inner)
    (folder / "mail.eml").write_bytes(message.as_bytes())
    assert library.ingest(str(folder)).done == 5
    assert keys(library, "rocks north harbour")[0] == "mail.eml#rocks.txt"
    assert keys(library, "fenders hull quay")[0].startswith("mail.eml#")
    (folder / "mail.eml").rename(folder / "letter.eml")
    library.ingest(str(folder))
    assert keys(library, "rocks north harbour")[0] == "letter.eml#rocks.txt"
    (folder / "letter.eml").unlink()
    library.ingest(str(folder))
    assert not [key for key in keys(library, "rocks harbour chart fenders") if "eml" in key]


def test_an_attachment_that_its_message_lost_leaves_the_index(library: rag.Library, store: Store, folder: Path) -> None:
    def write(*names: str) -> None:
        message = EmailMessage()
        message["Subject"] = "Charts"
        message.set_content("See the chart.")
        for name in names:
            message.add_attachment(f"Of {name}: rocks lie north of the harbour.", filename=name)
        (folder / "mail.eml").write_bytes(message.as_bytes())

    write("east.txt", "west.txt")
    (folder / "mail.eml#west.txt.txt").write_text("A file of its own, about rocks in the harbour.")
    library.ingest(str(folder))
    write("east.txt")
    library.ingest(str(folder))
    assert set(keys(library, "rocks north harbour")) >= {"mail.eml#east.txt", "mail.eml#west.txt.txt"}
    assert "mail.eml#west.txt" not in keys(library, "rocks north harbour west")
    write()
    library.ingest(str(folder))
    assert "mail.eml#east.txt" not in keys(library, "rocks north harbour east")
    assert "mail.eml#west.txt.txt" in keys(library, "rocks north harbour east")
    assert store.balance("documents").open == 0
    library = rag.Library(store, settings=SMALLER)
    library.ingest(str(folder))
    assert "mail.eml#east.txt" not in keys(library, "rocks north harbour east"), "other settings do not bring it back"
    write("east.txt", "west.txt")
    library.ingest(str(folder))
    assert set(keys(library, "rocks north harbour")) >= {"mail.eml#east.txt", "mail.eml#west.txt"}


def test_a_file_that_is_named_like_an_attachment_is_left_alone(library: rag.Library, folder: Path) -> None:
    (folder / "C").write_text("The language of kernels.")
    (folder / "C#").write_text("The language of Windows.")
    library.ingest(str(folder))
    (folder / "C").rename(folder / "D")
    library.ingest(str(folder))
    assert {"D", "C#"} <= set(keys(library, "the language of windows and kernels"))
    (folder / "D").unlink()
    library.ingest(str(folder))
    assert "C#" in keys(library, "the language of windows")


def test_a_first_page_that_is_set_aside_loses_neither_type_nor_attachments(store: Store, folder: Path) -> None:
    """One extra step rejects its page, another returns a page without file type and attachments: the file has both."""

    def refuse_the_first(doc: holdfast.Document, page: rag.Page) -> rag.Page:
        if page.number == 1 and doc.key == "mail.eml":
            raise holdfast.Reject("it has a secret")
        return rag.Page(page.number, page.text)

    message = EmailMessage()
    message["Subject"] = "Charts"
    message.set_content("\n\n".join(f"Chart {number} shows the coast. " + "Reef. " * 500 for number in range(300)))
    message.add_attachment("Rocks lie north of the harbour.", filename="rocks.txt")
    (folder / "mail.eml").write_bytes(message.as_bytes())
    library = rag.Library(store, settings=rag.CollectionSettings(embedder="hash:64"), pages=[refuse_the_first])
    assert library.ingest(str(folder)).done == 4
    (message_found,) = library.search("chart coast", rag.Where(key="mail.eml"), limit=1)
    assert (message_found.kind, message_found.title) == ("eml", "")
    assert message_found.page > 1
    assert keys(library, "rocks north harbour")[0] == "mail.eml#rocks.txt"
    assert library.search("anchor boat sand")[0].kind == "markdown"


def test_a_broken_file_is_a_dead_letter_and_stops_no_other(library: rag.Library, folder: Path) -> None:
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 and then nothing of use")
    (folder / "empty.txt").touch()
    report = library.ingest(str(folder))
    assert (report.done, report.dead) == (2, 2)
    reasons = {here.key: here.reason for here in library.store.documents("documents", state="dead")}
    assert "no bytes" in reasons["empty.txt"]
    assert "broken" in reasons["broken.pdf"] or "PDF" in reasons["broken.pdf"]


def test_other_settings_make_new_chunks_while_searches_see_the_old_ones(library: rag.Library, folder: Path) -> None:
    library.ingest(str(folder))
    settings = rag.CollectionSettings(embedder="hash:64", splitting=rag.Splitting(size=40, overlap=0))
    smaller = rag.Library(library.store, settings=settings)
    smaller.submit_changes(str(folder))
    assert len(smaller.search("spring tide moon")) == 2
    smaller.ingest(str(folder))
    assert max(len(found.text) for found in smaller.search("spring tide moon")) <= 40


def test_another_embedder_is_searched_once_all_its_vectors_are_made(library: rag.Library, folder: Path) -> None:
    library.ingest(str(folder))
    other = rag.Library(library.store, settings=rag.CollectionSettings(embedder="hash:128"))
    assert other.collection.searched == library.collection.settings
    other.reprocess_stale()
    assert all(found.by_meaning for found in other.search("spring tide moon", by="meaning"))
    assert other.collection.searched == library.collection.settings, "nothing of the new one is made yet"
    other.ingest(str(folder))
    found = other.search("spring tide moon", by="meaning")
    assert other.collection.searched is None
    assert found[0].key == "tides.txt"
    assert rag.Library(library.store).collection.searched is None


def _killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_two_processes_make_the_same_index_and_count_together(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(250):
        (folder / f"{number}.txt").write_text(
            f"Letter {number}\n\nIt speaks of the buoy number {number} and of the tide."
        )
    library = opened(store)
    report = library.ingest(str(folder), processes=2, threads=1)
    assert (report.done, report.dead) == (250, 0)
    assert library.progress["embed"] == 250
    assert keys(library, "buoy number 77")[0] == "77.txt"
    assert holdfast.verify(library.pipeline, store).fine == 250


def test_a_glob_deletes_no_files_that_it_does_not_match(library: rag.Library, folder: Path) -> None:
    library.ingest(str(folder))
    assert library.submit_changes(f"{folder}/*.md").counts == {"unchanged": 1}
    assert set(keys(library, "tide anchor")) == {"tides.txt", "anchors.md"}
    (folder / "anchors.md").unlink()
    assert library.submit_changes(f"{folder}/*.txt").counts == {"unchanged": 1}
    assert library.submit_changes(f"{folder}/*.md").counts == {"deleted": 1}
    assert keys(library, "tide anchor") == ["tides.txt"]


def test_a_search_with_earlier_settings_does_not_undo_later_ones(
    library: rag.Library, store: Store, folder: Path
) -> None:
    library.ingest(str(folder))
    second = rag.Library(store, settings=rag.CollectionSettings(embedder="hash:32"))
    second.ingest(str(folder))
    rag.Library(store, settings=rag.CollectionSettings(embedder="hash:16"))
    assert second.search("spring tide moon", by="meaning"), "its vectors are all there"
    third = rag.Library(store)
    assert third.collection.settings.embedder == "hash:16"
    assert third.search("spring tide moon", by="meaning"), "its own vectors are not there yet, so others are searched"
    third.ingest(str(folder))
    assert third.search("spring tide moon", by="meaning")
    assert rag.Library(store).collection.searched is None


def test_a_deleted_collection_accepts_no_documents(store: Store, folder: Path) -> None:
    library, other = opened(store), opened(store)
    library.submit_changes(str(folder))
    other.delete()
    with pytest.raises(NoSuchCollection, match="there is no collection 'documents'"):
        library.submit_changes(str(folder))


def test_a_document_whose_collection_is_deleted_during_work_is_rejected(store: Store, folder: Path) -> None:
    library = opened(store)
    library.submit_changes(str(folder))
    with store.transaction() as tx:
        tx.execute("delete from rag_collection")
    assert library.drain().dead == 2
    assert {one.reason for one in store.documents("documents")} == {
        "Reject: the collection 'documents' was deleted while the document was processed"
    }


def test_a_store_whose_url_has_options_and_escapes_can_be_searched(folder: Path, tmp_path: Path) -> None:
    with holdfast.open(f"sqlite:///{tmp_path}/my%20rag.db?synchronous=normal") as store:
        library = opened(store)
        assert library.ingest(str(folder)).done == 2
        assert keys(library, "anchor") == ["anchors.md", "tides.txt"]
        library.close()
    assert (tmp_path / "my rag.db").exists()
