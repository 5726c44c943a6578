"""What every index promises of documents: seen whole or not at all, replaced in one step, gone when forgotten."""

from __future__ import annotations

import pytest

from holdfast.pipelines.rag.index import Model, Name, Where, index_of
from holdfast.pipelines.rag.model import About, Chunk
from tests.rag.index.desk import NOTES, PAPERS, Desk

OLD = ["heron stands in the water", "heron waits for the fish"]
NEW = ["heron nests in the reeds", "heron feeds its young", "heron flies at dusk"]


def heron(desk: Desk) -> tuple[set[str], set[str]]:
    """What a search sees of the heron: by words, and by meaning."""
    return set(desk.words("heron")), set(desk.meaning("heron"))


def test_a_new_document_is_found_by_its_words_with_its_last_chunk_and_not_before(desk: Desk) -> None:
    desk.add("a", OLD[:1], last=False)
    assert desk.words("heron") == []
    desk.add("a", OLD[1:], about=None)
    assert set(desk.words("heron")) == set(OLD)


def test_a_document_is_found_by_its_meaning_only_after_it_is_shown(desk: Desk) -> None:
    desk.add("a", OLD)
    assert desk.meaning("heron") == []
    desk.remember(*OLD)
    assert desk.meaning("heron") == []
    desk.publish("a")
    assert desk.meaning("heron") == []
    desk.show("a")
    assert set(desk.meaning("heron")) == set(OLD)


def test_a_new_version_replaces_the_old_in_one_step(desk: Desk) -> None:
    desk.ingest("a", *OLD)
    before = (set(OLD), set(OLD))
    assert heron(desk) == before
    desk.add("a", NEW[:2], version=2, last=False)
    assert heron(desk) == before
    desk.add("a", NEW[2:], version=2, about=None)
    assert heron(desk) == before
    for text in NEW:
        desk.remember(text)
        assert heron(desk) == before
    desk.publish("a")
    assert heron(desk) == before
    desk.show("a")
    assert heron(desk) == (set(NEW), set(NEW))


def test_the_old_version_keeps_its_title_kind_and_metadata_until_the_new_one_is_shown(desk: Desk) -> None:
    def seen() -> tuple[str, str, object]:
        (hit,) = desk.index.by_words("heron", Where(), limit=10)
        stored = desk.index.chunks([hit.chunk])[hit.chunk]
        return stored.kind, stored.title, stored.metadata

    desk.ingest("a", "heron", about=About("text", "Old"), metadata={"year": 1})
    desk.add("a", ["heron again"], version=2, about=About("pdf", "New"), metadata={"year": 2})
    assert seen() == ("text", "Old", {"year": 1})
    assert desk.words("heron", Where(kind="pdf")) == []
    desk.remember("heron again", title="New")
    desk.publish("a")
    desk.show("a")
    assert seen() == ("pdf", "New", {"year": 2})
    assert desk.words("heron", Where(kind="pdf")) == ["heron again"]


def test_a_version_that_was_never_finished_leaves_nothing_behind_the_next_one(desk: Desk) -> None:
    desk.ingest("a", *OLD)
    desk.add("a", NEW[:2], version=2, last=False)
    desk.ingest("a", "heron sleeps", version=3)
    assert heron(desk) == ({"heron sleeps"}, {"heron sleeps"})
    assert desk.holds("a", 1)


def test_showing_a_version_again_changes_nothing(desk: Desk) -> None:
    desk.ingest("a", *OLD)
    desk.publish("a")
    desk.show("a")
    assert heron(desk) == (set(OLD), set(OLD))
    assert desk.holds("a", 2)


def test_showing_a_document_that_has_no_chunk_is_nothing(desk: Desk) -> None:
    desk.publish("empty")
    desk.show("empty")
    assert desk.holds("empty", 0)
    assert not desk.holds("empty", 1)


def test_equal_chunks_of_one_document_are_both_there(desk: Desk) -> None:
    desk.ingest("a", "heron", "heron")
    assert desk.words("heron") == desk.meaning("heron") == ["heron", "heron"]
    assert desk.holds("a", 2)


def test_a_forgotten_document_is_found_no_more_and_can_come_back(desk: Desk) -> None:
    desk.ingest("a", *OLD)
    desk.ingest("b", "stork stands on the roof")
    desk.forget("a")
    assert heron(desk)[0] == set()
    assert set(desk.meaning("heron")) == {"stork stands on the roof"}
    assert not desk.holds("a", 2)
    desk.ingest("a", *NEW, version=2)
    assert set(desk.words("heron")) == set(NEW)
    assert set(desk.meaning("heron")) == {*NEW, "stork stands on the roof"}


def test_forgetting_what_is_not_there_is_nothing(desk: Desk) -> None:
    desk.forget("a")
    desk.rename("a", to="b")
    assert heron(desk) == (set(), set())


def test_a_renamed_document_is_found_under_its_new_key_only(desk: Desk) -> None:
    desk.ingest("a", *OLD)
    desk.rename("a", to="b")
    assert set(desk.words("heron", Where(key="b"))) == set(desk.meaning("heron", Where(key="b"))) == set(OLD)
    assert desk.words("heron", Where(key="a")) == desk.meaning("heron", Where(key="a")) == []
    assert desk.holds("b", 2)
    assert not desk.holds("a", 2)


def test_a_key_that_was_forgotten_can_be_renamed_to(desk: Desk) -> None:
    desk.ingest("b", "stork")
    desk.forget("b")
    desk.ingest("a", *OLD)
    desk.rename("a", to="b")
    assert heron(desk) == (set(OLD), set(OLD))


def test_a_document_that_takes_anothers_key_takes_its_place(desk: Desk) -> None:
    desk.ingest("b", "heron of old")
    desk.ingest("a", *OLD)
    desk.rename("a", to="b")
    assert heron(desk) == (set(OLD), set(OLD))


def test_what_comes_after_a_renaming_under_the_old_key_is_another_document(desk: Desk) -> None:
    desk.ingest("a", *OLD)
    desk.rename("a", to="b")
    desk.ingest("a", *NEW)
    assert heron(desk) == ({*OLD, *NEW}, {*OLD, *NEW})
    assert desk.holds("a", 3)
    assert desk.holds("b", 2)


def test_a_transaction_that_is_rolled_back_leaves_nothing(desk: Desk) -> None:
    desk.ingest("kept", "heron that stays")
    stays = ({"heron that stays"}, {"heron that stays"})
    with desk.rolled_back() as tx:
        desk.add("a", OLD, tx=tx)
        desk.remember(*OLD, tx=tx)
        assert heron(desk) == stays
    desk.add("a", OLD)
    desk.remember(*OLD)
    desk.publish("a")
    with desk.rolled_back() as tx:
        desk.show("a", tx=tx)
        assert set(desk.meaning("heron")) == stays[1]
    assert set(desk.meaning("heron")) == stays[1]
    desk.show("a")
    for undo in (lambda tx: desk.forget("kept", tx=tx), lambda tx: desk.rename("kept", to="x", tx=tx)):
        with desk.rolled_back() as tx:
            undo(tx)
            assert heron(desk) == ({*OLD, *stays[0]}, {*OLD, *stays[0]})
        assert desk.holds("kept", 1)


def test_the_first_use_of_a_model_can_be_rolled_back(desk: Desk) -> None:
    with desk.rolled_back() as tx:
        desk.remember("heron", tx=tx)
    contents = [Chunk.holding("heron").hash]
    assert desk.index.known(desk.model, contents) == set()
    desk.ingest("a", "heron")
    assert desk.index.known(desk.model, contents) == set(contents)
    assert desk.meaning("heron") == ["heron"]


def test_vectors_are_known_by_content_and_model(desk: Desk) -> None:
    one, other = Chunk.holding("heron").hash, Chunk.holding("stork").hash
    assert desk.index.known(desk.model, [one]) == set()
    desk.remember("heron")
    desk.remember("heron")
    assert desk.index.known(desk.model, [one, other]) == {one}
    assert desk.index.known(desk.model, []) == set()
    assert desk.index.known(Model("another", 8), [one]) == set()


def test_two_models_stand_side_by_side(desk: Desk) -> None:
    desk.ingest("a", *OLD)
    small = Desk(desk.store, desk.index, desk.another, dimension=16)
    assert small.meaning("heron") == []
    assert not small.holds("a", 2)
    small.remember(*OLD)
    small.publish("a")
    small.show("a")
    assert set(small.meaning("heron")) == set(desk.meaning("heron")) == set(OLD)
    assert small.holds("a", 2)
    assert desk.holds("a", 2)


def test_a_model_whose_vectors_change_their_length_is_refused(desk: Desk) -> None:
    desk.remember("heron")
    with pytest.raises(ValueError, match="64 numbers before, and gives 8 now"), desk.store.transaction() as tx:
        desk.index.remember(tx, Model(desk.model.name, 8), {b"0" * 16: bytes(16)})


def test_a_document_that_is_whole_is_held(desk: Desk) -> None:
    desk.add("a", OLD)
    assert not desk.holds("a", 2)
    desk.remember(*OLD)
    desk.publish("a")
    assert not desk.holds("a", 2)
    desk.show("a")
    assert desk.holds("a", 2)
    assert not desk.holds("a", 3)
    desk.add("a", NEW, version=2)
    assert not desk.holds("a", 3)


def test_a_searcher_that_was_open_before_sees_what_another_changes(desk: Desk) -> None:
    other = desk.another()
    desk.ingest("a", *OLD)
    assert set(desk.meaning("heron", index=other)) == set(OLD)
    desk.ingest("a", *NEW, version=2)
    assert set(desk.meaning("heron", index=other)) == set(NEW)
    desk.ingest("b", "stork")
    desk.forget("a")
    assert desk.meaning("heron", index=other) == ["stork"]


def test_equal_names_in_two_collections_are_two_documents(desk: Desk) -> None:
    desk.ingest("a", "heron")
    desk.ingest("a", "heron", collection=NOTES)
    desk.forget("a")
    assert desk.words("heron") == desk.meaning("heron") == ["heron"]
    assert desk.index.shows(Name(NOTES, "/folder", "a"), model=desk.model, chunks=1)


def test_a_chunk_that_is_gone_is_left_out(desk: Desk) -> None:
    desk.ingest("a", "heron")
    (hit,) = desk.index.by_words("heron", Where(), limit=10)
    desk.forget("a")
    assert desk.index.chunks([hit.chunk, 12345]) == {}
    assert desk.index.chunks([]) == {}


def test_documents_are_found_by_how_their_keys_begin(desk: Desk) -> None:
    for key in ("mail.eml", "mail.eml#a.txt", "mail.eml#a.txt#b", "mail.emlx", "Mail.eml#a.txt", "mail.eml#ü%_"):
        desk.ingest(key, "tide")
    ground = index_of(desk.store)
    found = {name.key for name in ground.beginning(Name(PAPERS, "/folder", "mail.eml#"))}
    ground.close()
    assert found == {"mail.eml#a.txt", "mail.eml#a.txt#b", "mail.eml#ü%_"}
