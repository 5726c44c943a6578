"""From files to answers: what a newcomer would do, and what happens to files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.engine.events import Committed
from holdfast.pipelines import rag
from holdfast.pipelines.rag.collections import NoSuchCollection
from holdfast.pipelines.rag.search import By
from holdfast.pipelines.rag.states import standing_of
from holdfast.stores.protocol import Store

SMALLER = rag.Settings(embedder="hash:16", splitting=rag.Splitting(size=500, overlap=50))

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
    return rag.Library(store, settings=rag.Settings(embedder="hash:64"))


def keys(library: rag.Library, question: str) -> list[str]:
    return [found.key for found in library.search(question, each=1)]


def test_what_was_ingested_is_found_with_its_place(library: rag.Library, folder: Path) -> None:
    assert library.ingest(str(folder)).done == 2
    found = library.search("how heavy an anchor for a boat in sand")[0]
    assert (found.key, found.page, found.title, found.kind) == ("anchors.md", 1, "Anchors", "markdown")
    assert found.text == (folder / "anchors.md").read_text()[found.start : found.end]
    assert {found.snippet[a:b].lower() for a, b in found.marks} >= {"anchor", "boat", "sand"}
    assert found.by_words == 1
    assert found.by_meaning is not None


def test_what_did_not_change_is_not_read_again(library: rag.Library, folder: Path) -> None:
    library.ingest(str(folder))
    assert library.take_in(str(folder)).counts == {"unchanged": 2}
    assert library.ingest(str(folder)).done == 0


@pytest.mark.parametrize(("pages_per_commit", "together"), [(1, [1, 1, 1, 1, 1]), (2, [2, 2, 1])])
def test_a_collection_says_how_many_pages_a_checkpoint_is_for(
    store: Store, tmp_path: Path, pages_per_commit: int, together: list[int]
) -> None:
    tiff = tmp_path / "five.tiff"
    first, *others = [Image.new("L", (60, 40), 255) for _ in range(5)]
    first.save(tiff, save_all=True, append_images=others)
    library = rag.Library(store, settings=rag.Settings(embedder="hash:64", pages_per_commit=pages_per_commit))
    kept: list[int] = []

    def listen(event: object) -> None:
        if isinstance(event, Committed):
            kept.extend(len(move.items) for move in event.moves if move.items and move.items[0].step == "extract")

    assert library.ingest(str(tiff), listeners=[listen]).done == 1
    assert kept == together


def test_another_number_of_pages_per_commit_makes_nothing_anew(library: rag.Library, folder: Path) -> None:
    library.ingest(str(folder))
    more = rag.Library(library.store, settings=rag.Settings(embedder="hash:64", pages_per_commit=7))
    assert more.ingest(str(folder)).done == 0


def test_a_changed_file_replaces_its_old_version(library: rag.Library, folder: Path) -> None:
    library.ingest(str(folder))
    (folder / "tides.txt").write_text("On ebb\n\nNeap tides follow the half moon, and are the weakest of all.")
    assert library.take_in(str(folder)).counts == {"unchanged": 1, "changed": 1}
    assert "spring" in library.search("tide moon")[0].text, "the old version is seen until the new one is complete"
    library.ingest(str(folder))
    assert [found.text for found in library.search("spring tide moon") if "spring" in found.text] == []
    assert keys(library, "neap tides")[0] == "tides.txt"


def test_a_file_that_has_no_text_any_more_is_not_found_as_it_was(library: rag.Library, folder: Path) -> None:
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
    assert library.take_in(str(folder)).counts == {"unchanged": 1, "deleted": 1}
    assert "tides.txt" not in keys(library, "spring tide moon")
    assert standing_of(library.store, "documents").states == {"COMPLETED": 1}
    (folder / "tides.txt").write_text(text)
    library.ingest(str(folder))
    assert keys(library, "spring tide moon")[0] == "tides.txt"


def test_a_deleted_file_stays_out_whatever_becomes_of_the_others(library: rag.Library, folder: Path) -> None:
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
    """Another folder, whose message carries something and whose PDF cannot be read."""
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
    """A library in a store of each kind, one after the other."""
    with closing(opened(each_store)) as library:
        yield library


def test_all_that_came_from_a_source_can_be_forgotten(
    each_library: rag.Library, folder: Path, two_folders: Path
) -> None:
    library, store = each_library, each_library.store
    library.ingest(str(folder))
    library.ingest(str(two_folders))
    assert library.forget(str(two_folders)) == 3
    assert set(keys(library, "seven buoys mark the channel")) == {"anchors.md", "tides.txt"}
    assert standing_of(store, "documents").sources == {str(folder): 2}
    assert standing_of(store, "documents").states == {"COMPLETED": 2}
    assert library.withdrawn() == 3
    assert store.balance("documents").balances


def test_what_a_forget_that_was_killed_left_is_forgotten_by_the_next(
    each_library: rag.Library, two_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    each_library.ingest(str(two_folders), rag.Looking(metadata={"client": "acme"}))
    with monkeypatch.context() as killing:
        killing.setattr("holdfast.pipelines.rag.metadata.forget", _killed)
        with pytest.raises(KeyboardInterrupt):
            each_library.forget(str(two_folders))
    assert each_library.forget(str(two_folders)) == 0
    each_library.ingest(str(two_folders))
    assert each_library.search("buoys")[0].metadata == {}


@pytest.mark.parametrize("where", ["rewind_to", "cancel", "transaction"])
def test_an_ingest_after_a_forget_that_was_killed_takes_all_in_anew(
    library: rag.Library, folder: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    library.ingest(str(folder))
    with monkeypatch.context() as killing:
        cancel = library.store.cancel

        def cancelled(*given: Any, **more: Any) -> Any:
            done = cancel(*given, **more)
            killing.setattr(library.store, "transaction", _killed)
            return done

        killing.setattr(library.store, "cancel" if where == "transaction" else where, _killed)
        if where == "transaction":
            killing.setattr(library.store, "cancel", cancelled)
        with pytest.raises(KeyboardInterrupt):
            library.forget(str(folder))
    library.ingest(str(folder))
    assert standing_of(library.store, "documents").states == {"COMPLETED": 2}
    assert set(keys(library, "spring tide anchor")) == {"tides.txt", "anchors.md"}


def test_a_move_that_was_killed_and_is_undone_leaves_all_as_it_was(
    library: rag.Library, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.ingest(str(folder))
    (folder / "anchors.md").rename(folder.parent / "kept")
    (folder / "tides.txt").rename(folder / "anchors.md")
    with monkeypatch.context() as killing:
        killing.setattr(library.store, "rename", _killed)
        with pytest.raises(KeyboardInterrupt):
            library.take_in(str(folder))
    (folder / "anchors.md").rename(folder / "tides.txt")
    (folder.parent / "kept").rename(folder / "anchors.md")
    library.ingest(str(folder))
    assert standing_of(library.store, "documents").states == {"COMPLETED": 2}
    assert keys(library, "how heavy an anchor")[0] == "anchors.md"


def test_what_a_moved_message_carries_does_not_take_the_place_of_a_file(library: rag.Library, folder: Path) -> None:
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
    other = rag.Library(library.store, settings=rag.Settings(embedder="openai:text-embedding-3-small"))
    assert other.forget(str(two_folders)) == 3
    assert other.collection.searched is not None


def test_words_are_found_while_a_new_embedder_does_not_answer(
    library: rag.Library, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:9")
    library.ingest(str(folder))
    other = rag.Library(library.store, settings=rag.Settings(embedder="ollama:away"))
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
    monkeypatch.setattr("holdfast.pipelines.rag.ingest.hash_of", lambda seen, **_: seen.key)
    assert library.ingest(str(folder)).dead == 1
    (here,) = library.store.standings("documents", state="dead")
    assert "too large: 30,720 MiB" in here.reason
    assert library.take_in(str(folder)).counts == {"unchanged": 3}


def test_a_dead_letter_whose_file_is_deleted_is_none_any_more(library: rag.Library, folder: Path) -> None:
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 and nothing else")
    assert library.ingest(str(folder)).dead == 1
    (folder / "broken.pdf").unlink()
    library.ingest(str(folder))
    assert library.store.balance("documents").dead == 0
    assert standing_of(library.store, "documents").documents == 2


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
    assert library.take_in(str(folder)).counts == {"unchanged": 1, "moved": 1}
    assert keys(library, "spring tide moon")[0] == "old/ebb-and-flow.txt"
    assert library.ingest(str(folder)).done == 0


def test_a_move_that_was_killed_in_the_middle_is_finished(
    library: rag.Library, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.ingest(str(folder))
    (folder / "tides.txt").rename(folder / "ebb.txt")
    with monkeypatch.context() as patch:
        patch.setattr(library.index, "rename", _killed)
        with pytest.raises(KeyboardInterrupt):
            library.take_in(str(folder))
    again = opened(library.store)
    assert again.take_in(str(folder)).counts == {"unchanged": 1, "moved": 1}
    assert keys(again, "spring tide moon")[0] == "ebb.txt"
    assert again.ingest(str(folder)).done == 0


def test_a_file_takes_the_place_of_a_deleted_one(library: rag.Library, folder: Path) -> None:
    library.ingest(str(folder))
    (folder / "anchors.md").unlink()
    library.ingest(str(folder))
    (folder / "tides.txt").rename(folder / "anchors.md")
    library.ingest(str(folder))
    assert set(keys(library, "spring tide moon")) == {"anchors.md"}


def test_a_copy_takes_the_place_of_one_that_was_deleted_and_is_not_read_again(
    library: rag.Library, folder: Path
) -> None:
    (folder / "copy.txt").write_bytes((folder / "tides.txt").read_bytes())
    library.ingest(str(folder))
    (folder / "tides.txt").unlink()
    library.ingest(str(folder))
    (folder / "copy.txt").rename(folder / "tides.txt")
    assert library.ingest(str(folder)).done == 0
    assert library.store.standing("documents", str(folder), "tides.txt").state == "done"
    assert library.store.standing("documents", str(folder), "copy.txt").state == "cancelled"
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


def test_what_a_message_does_not_carry_any_more_leaves_the_index(
    library: rag.Library, store: Store, folder: Path
) -> None:
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


def test_a_file_that_is_called_like_an_attachment_is_left_alone(library: rag.Library, folder: Path) -> None:
    (folder / "C").write_text("The language of kernels.")
    (folder / "C#").write_text("The language of Windows.")
    library.ingest(str(folder))
    (folder / "C").rename(folder / "D")
    library.ingest(str(folder))
    assert {"D", "C#"} <= set(keys(library, "the language of windows and kernels"))
    (folder / "D").unlink()
    library.ingest(str(folder))
    assert "C#" in keys(library, "the language of windows")


def test_a_first_page_that_is_set_aside_takes_neither_type_nor_attachments_with_it(store: Store, folder: Path) -> None:
    """A step of one's own fails for it, for good, and another loses what is no text: the file itself knows both."""

    def refuse_the_first(doc: holdfast.Document, page: rag.Page) -> rag.Page:
        if page.number == 1 and doc.key == "mail.eml":
            raise holdfast.Reject("it has a secret")
        return rag.Page(page.number, page.text)

    message = EmailMessage()
    message["Subject"] = "Charts"
    message.set_content("\n\n".join(f"Chart {number} shows the coast. " + "Reef. " * 500 for number in range(300)))
    message.add_attachment("Rocks lie north of the harbour.", filename="rocks.txt")
    (folder / "mail.eml").write_bytes(message.as_bytes())
    library = rag.Library(store, settings=rag.Settings(embedder="hash:64"), pages=[refuse_the_first])
    assert library.ingest(str(folder)).done == 4
    (message_found,) = library.search("chart coast", rag.Where(key="mail.eml"), limit=1)
    assert (message_found.kind, message_found.title) == ("eml", "")
    assert message_found.page > 1
    assert keys(library, "rocks north harbour")[0] == "mail.eml#rocks.txt"
    assert library.search("anchor boat sand")[0].kind == "markdown"


def test_a_broken_file_is_a_dead_letter_and_stops_nobody(library: rag.Library, folder: Path) -> None:
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 and then nothing of use")
    (folder / "empty.txt").touch()
    report = library.ingest(str(folder))
    assert (report.done, report.dead) == (2, 2)
    reasons = {here.key: here.reason for here in library.store.standings("documents", state="dead")}
    assert "no bytes" in reasons["empty.txt"]
    assert "broken" in reasons["broken.pdf"] or "PDF" in reasons["broken.pdf"]


def test_other_settings_make_the_chunks_anew_and_search_goes_on_meanwhile(library: rag.Library, folder: Path) -> None:
    library.ingest(str(folder))
    settings = rag.Settings(embedder="hash:64", splitting=rag.Splitting(size=40, overlap=0))
    smaller = rag.Library(library.store, settings=settings)
    smaller.take_in(str(folder))
    assert len(smaller.search("spring tide moon")) == 2
    smaller.ingest(str(folder))
    assert max(len(found.text) for found in smaller.search("spring tide moon")) <= 40


def test_another_embedder_takes_over_when_all_its_vectors_are_made(library: rag.Library, folder: Path) -> None:
    library.ingest(str(folder))
    other = rag.Library(library.store, settings=rag.Settings(embedder="hash:128"))
    assert other.collection.searched == library.collection.settings
    other.redo_what_is_stale()
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
    assert library.tally["embed"] == 250
    assert keys(library, "buoy number 77")[0] == "77.txt"
    assert holdfast.verify(library.pipeline, store).fine == 250


def test_a_glob_says_nothing_of_files_that_it_does_not_match(library: rag.Library, folder: Path) -> None:
    library.ingest(str(folder))
    assert library.take_in(f"{folder}/*.md").counts == {"unchanged": 1}
    assert set(keys(library, "tide anchor")) == {"tides.txt", "anchors.md"}
    (folder / "anchors.md").unlink()
    assert library.take_in(f"{folder}/*.txt").counts == {"unchanged": 1}
    assert library.take_in(f"{folder}/*.md").counts == {"deleted": 1}
    assert keys(library, "tide anchor") == ["tides.txt"]


def test_who_searches_by_earlier_settings_does_not_undo_later_ones(
    library: rag.Library, store: Store, folder: Path
) -> None:
    library.ingest(str(folder))
    second = rag.Library(store, settings=rag.Settings(embedder="hash:32"))
    second.ingest(str(folder))
    rag.Library(store, settings=rag.Settings(embedder="hash:16"))
    assert second.search("spring tide moon", by="meaning"), "its vectors are all there"
    third = rag.Library(store)
    assert third.collection.settings.embedder == "hash:16"
    assert third.search("spring tide moon", by="meaning"), "its own vectors are not there yet, so others are searched"
    third.ingest(str(folder))
    assert third.search("spring tide moon", by="meaning")
    assert rag.Library(store).collection.searched is None


def test_a_collection_that_was_deleted_takes_nothing_in(store: Store, folder: Path) -> None:
    library, other = opened(store), opened(store)
    library.take_in(str(folder))
    other.delete()
    with pytest.raises(NoSuchCollection, match="there is no collection 'documents'"):
        library.take_in(str(folder))


def test_a_document_whose_collection_is_deleted_under_way_says_so(store: Store, folder: Path) -> None:
    library = opened(store)
    library.take_in(str(folder))
    with store.transaction() as tx:
        tx.execute("delete from rag_collection")
    assert library.drain().dead == 2
    assert {one.reason for one in store.standings("documents")} == {
        "Reject: its collection 'documents' was deleted meanwhile"
    }


def test_a_store_whose_url_has_options_and_escapes_can_be_searched(folder: Path, tmp_path: Path) -> None:
    with holdfast.open(f"sqlite:///{tmp_path}/my%20rag.db?synchronous=normal") as store:
        library = opened(store)
        assert library.ingest(str(folder)).done == 2
        assert keys(library, "anchor") == ["anchors.md", "tides.txt"]
        library.close()
    assert (tmp_path / "my rag.db").exists()
