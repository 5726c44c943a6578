"""What every index guarantees for documents: visible as a whole or not at all, replaced at once, deleted for good."""

from __future__ import annotations

import pytest

from holdfast.pipelines.rag.index import DocumentName, EmbeddingModel, Where
from holdfast.pipelines.rag.index.question import Question
from holdfast.pipelines.rag.index.registry import database_index
from holdfast.pipelines.rag.values import Chunk, DocumentInfo
from tests.support.index_harness import NOTES, PAPERS, IndexHarness

OLD = ["heron stands in the water", "heron waits for the fish"]
NEW = ["heron nests in the reeds", "heron feeds its young", "heron flies at dusk"]


def heron(harness: IndexHarness) -> tuple[set[str], set[str]]:
    """Return what searches for "heron" find: by keyword, and by vector."""
    return set(harness.word_hits("heron")), set(harness.vector_hits("heron"))


def test_a_new_document_is_found_by_its_words_with_its_last_chunk_and_not_before(harness: IndexHarness) -> None:
    harness.add("a", OLD[:1], last=False)
    assert harness.word_hits("heron") == []
    harness.add("a", OLD[1:], about=None)
    assert set(harness.word_hits("heron")) == set(OLD)


def test_a_document_is_found_by_vector_only_after_it_is_made_visible(harness: IndexHarness) -> None:
    harness.add("a", OLD)
    assert harness.vector_hits("heron") == []
    harness.save_vectors(*OLD)
    assert harness.vector_hits("heron") == []
    harness.upload("a")
    assert harness.vector_hits("heron") == []
    harness.make_visible("a")
    assert set(harness.vector_hits("heron")) == set(OLD)


def test_a_new_version_replaces_the_old_in_one_transaction(harness: IndexHarness) -> None:
    harness.ingest("a", *OLD)
    before = (set(OLD), set(OLD))
    assert heron(harness) == before
    harness.add("a", NEW[:2], version=2, last=False)
    assert heron(harness) == before
    harness.add("a", NEW[2:], version=2, about=None)
    assert heron(harness) == before
    for text in NEW:
        harness.save_vectors(text)
        assert heron(harness) == before
    harness.upload("a")
    assert heron(harness) == before
    harness.make_visible("a")
    assert heron(harness) == (set(NEW), set(NEW))


def test_the_old_version_keeps_its_title_kind_and_metadata_until_the_new_one_is_visible(harness: IndexHarness) -> None:
    def seen() -> tuple[str, str, object]:
        (hit,) = harness.index.search_words(Question(text="heron"), Where(), limit=10)
        stored = harness.index.chunks([hit.chunk])[hit.chunk]
        return stored.kind, stored.title, stored.metadata

    harness.ingest("a", "heron", about=DocumentInfo("text", "Old"), metadata={"year": 1})
    harness.add("a", ["heron again"], version=2, about=DocumentInfo("pdf", "New"), metadata={"year": 2})
    assert seen() == ("text", "Old", {"year": 1})
    assert harness.word_hits("heron", Where(kind="pdf")) == []
    harness.save_vectors("heron again", title="New")
    harness.upload("a")
    harness.make_visible("a")
    assert seen() == ("pdf", "New", {"year": 2})
    assert harness.word_hits("heron", Where(kind="pdf")) == ["heron again"]


def test_an_unfinished_version_is_deleted_by_the_next_one(harness: IndexHarness) -> None:
    harness.ingest("a", *OLD)
    harness.add("a", NEW[:2], version=2, last=False)
    harness.ingest("a", "heron sleeps", version=3)
    assert heron(harness) == ({"heron sleeps"}, {"heron sleeps"})
    assert harness.has("a", 1)


def test_making_a_version_visible_again_changes_nothing(harness: IndexHarness) -> None:
    harness.ingest("a", *OLD)
    harness.upload("a")
    harness.make_visible("a")
    assert heron(harness) == (set(OLD), set(OLD))
    assert harness.has("a", 2)


def test_making_a_document_without_chunks_visible_does_nothing(harness: IndexHarness) -> None:
    harness.upload("empty")
    harness.make_visible("empty")
    assert harness.has("empty", 0)
    assert not harness.has("empty", 1)


def test_equal_chunks_of_one_document_are_both_found(harness: IndexHarness) -> None:
    harness.ingest("a", "heron", "heron")
    assert harness.word_hits("heron") == harness.vector_hits("heron") == ["heron", "heron"]
    assert harness.has("a", 2)


def test_a_deleted_document_is_not_found_and_can_be_added_again(harness: IndexHarness) -> None:
    harness.ingest("a", *OLD)
    harness.ingest("b", "stork stands on the roof")
    harness.delete("a")
    assert heron(harness)[0] == set()
    assert set(harness.vector_hits("heron")) == {"stork stands on the roof"}
    assert not harness.has("a", 2)
    harness.ingest("a", *NEW, version=2)
    assert set(harness.word_hits("heron")) == set(NEW)
    assert set(harness.vector_hits("heron")) == {*NEW, "stork stands on the roof"}


def test_deleting_a_document_that_does_not_exist_does_nothing(harness: IndexHarness) -> None:
    harness.delete("a")
    harness.rename("a", to="b")
    assert heron(harness) == (set(), set())


def test_a_renamed_document_is_found_under_its_new_key_only(harness: IndexHarness) -> None:
    harness.ingest("a", *OLD)
    harness.rename("a", to="b")
    assert (
        set(harness.word_hits("heron", Where(key="b"))) == set(harness.vector_hits("heron", Where(key="b"))) == set(OLD)
    )
    assert harness.word_hits("heron", Where(key="a")) == harness.vector_hits("heron", Where(key="a")) == []
    assert harness.has("b", 2)
    assert not harness.has("a", 2)


def test_a_document_can_get_the_key_of_a_deleted_one(harness: IndexHarness) -> None:
    harness.ingest("b", "stork")
    harness.delete("b")
    harness.ingest("a", *OLD)
    harness.rename("a", to="b")
    assert heron(harness) == (set(OLD), set(OLD))


def test_a_document_that_gets_the_key_of_another_replaces_it(harness: IndexHarness) -> None:
    harness.ingest("b", "heron of old")
    harness.ingest("a", *OLD)
    harness.rename("a", to="b")
    assert heron(harness) == (set(OLD), set(OLD))


def test_a_document_added_under_the_old_key_of_a_renamed_one_is_another(harness: IndexHarness) -> None:
    harness.ingest("a", *OLD)
    harness.rename("a", to="b")
    harness.ingest("a", *NEW)
    assert heron(harness) == ({*OLD, *NEW}, {*OLD, *NEW})
    assert harness.has("a", 3)
    assert harness.has("b", 2)


def test_a_transaction_that_is_rolled_back_leaves_nothing(harness: IndexHarness) -> None:
    harness.ingest("kept", "heron that stays")
    stays = ({"heron that stays"}, {"heron that stays"})
    with harness.rolled_back() as tx:
        harness.add("a", OLD, tx=tx)
        harness.save_vectors(*OLD, tx=tx)
        assert heron(harness) == stays
    harness.add("a", OLD)
    harness.save_vectors(*OLD)
    harness.upload("a")
    with harness.rolled_back() as tx:
        harness.make_visible("a", tx=tx)
        assert set(harness.vector_hits("heron")) == stays[1]
    assert set(harness.vector_hits("heron")) == stays[1]
    harness.make_visible("a")
    for undo in (lambda tx: harness.delete("kept", tx=tx), lambda tx: harness.rename("kept", to="x", tx=tx)):
        with harness.rolled_back() as tx:
            undo(tx)
            assert heron(harness) == ({*OLD, *stays[0]}, {*OLD, *stays[0]})
        assert harness.has("kept", 1)


def test_the_first_use_of_a_model_can_be_rolled_back(harness: IndexHarness) -> None:
    with harness.rolled_back() as tx:
        harness.save_vectors("heron", tx=tx)
    contents = [Chunk.from_text("heron").hash]
    assert harness.index.known_hashes(harness.model, contents) == set()
    harness.ingest("a", "heron")
    assert harness.index.known_hashes(harness.model, contents) == set(contents)
    assert harness.vector_hits("heron") == ["heron"]


def test_vectors_are_known_by_content_and_model(harness: IndexHarness) -> None:
    one, other = Chunk.from_text("heron").hash, Chunk.from_text("stork").hash
    assert harness.index.known_hashes(harness.model, [one]) == set()
    harness.save_vectors("heron")
    harness.save_vectors("heron")
    assert harness.index.known_hashes(harness.model, [one, other]) == {one}
    assert harness.index.known_hashes(harness.model, []) == set()
    assert harness.index.known_hashes(EmbeddingModel("another", 8), [one]) == set()


def test_two_models_do_not_affect_each_other(harness: IndexHarness) -> None:
    harness.ingest("a", *OLD)
    small = IndexHarness(harness.store, harness.index, harness.another, dimension=16)
    assert small.vector_hits("heron") == []
    assert not small.has("a", 2)
    small.save_vectors(*OLD)
    small.upload("a")
    small.make_visible("a")
    assert set(small.vector_hits("heron")) == set(harness.vector_hits("heron")) == set(OLD)
    assert small.has("a", 2)
    assert harness.has("a", 2)


def test_a_model_whose_dimension_changed_is_refused(harness: IndexHarness) -> None:
    harness.save_vectors("heron")
    with pytest.raises(ValueError, match="have 64 numbers, and the new ones have 8"), harness.store.transaction() as tx:
        harness.index.save_vectors(tx, EmbeddingModel(harness.model.name, 8), {b"0" * 16: bytes(16)})


def test_a_complete_document_is_reported_as_complete(harness: IndexHarness) -> None:
    harness.add("a", OLD)
    assert not harness.has("a", 2)
    harness.save_vectors(*OLD)
    harness.upload("a")
    assert not harness.has("a", 2)
    harness.make_visible("a")
    assert harness.has("a", 2)
    assert not harness.has("a", 3)
    harness.add("a", NEW, version=2)
    assert not harness.has("a", 3)


def test_an_open_index_sees_the_changes_of_another_process(harness: IndexHarness) -> None:
    other = harness.another()
    harness.ingest("a", *OLD)
    assert set(harness.vector_hits("heron", index=other)) == set(OLD)
    harness.ingest("a", *NEW, version=2)
    assert set(harness.vector_hits("heron", index=other)) == set(NEW)
    harness.ingest("b", "stork")
    harness.delete("a")
    assert harness.vector_hits("heron", index=other) == ["stork"]


def test_equal_names_in_two_collections_are_two_documents(harness: IndexHarness) -> None:
    harness.ingest("a", "heron")
    harness.ingest("a", "heron", collection=NOTES)
    harness.delete("a")
    assert harness.word_hits("heron") == harness.vector_hits("heron") == ["heron"]
    assert harness.index.is_visible(DocumentName(NOTES, "/folder", "a"), model=harness.model, chunks=1)


def test_a_deleted_chunk_is_left_out(harness: IndexHarness) -> None:
    harness.ingest("a", "heron")
    (hit,) = harness.index.search_words(Question(text="heron"), Where(), limit=10)
    harness.delete("a")
    assert harness.index.chunks([hit.chunk, 12345]) == {}
    assert harness.index.chunks([]) == {}


def test_documents_are_found_by_the_prefix_of_their_keys(harness: IndexHarness) -> None:
    for key in ("mail.eml", "mail.eml#a.txt", "mail.eml#a.txt#b", "mail.emlx", "Mail.eml#a.txt", "mail.eml#ü%_"):
        harness.ingest(key, "tide")
    ground = database_index(harness.store)
    found = {name.key for name in ground.names_with_prefix(DocumentName(PAPERS, "/folder", "mail.eml#"))}
    ground.close()
    assert found == {"mail.eml#a.txt", "mail.eml#a.txt#b", "mail.eml#ü%_"}
