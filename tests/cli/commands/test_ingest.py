"""`holdfast ingest`, `search` and `collection`, as a new user types them."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from contextlib import closing
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run

pytest.importorskip("numpy", reason="document search needs the extra rag")

from holdfast import open as open_store
from holdfast.cli.commands import ingest
from holdfast.core.formatting import format_money
from holdfast.pipelines import rag
from tests.support.custom_embedder import CustomEmbedder
from tests.support.sample_files import pdf


@pytest.fixture
def letters(folder: Path, holdfast: Run) -> Path:
    """A folder of letters, and a collection with an embedder that needs no model."""
    letters = folder / "letters"
    letters.mkdir()
    (letters / "tides.txt").write_text("On tides\n\nThe spring tide comes twice a month, at new and at full moon.")
    (letters / "anchors.md").write_text("# Anchors\n\nAn anchor of twenty kilos holds a boat of ten metres in sand.")
    assert holdfast("collection", "create", "documents", "--embedder", "hash:64").exit_code == 0
    return letters


def test_a_folder_is_ingested_and_searched(holdfast: Run, letters: Path) -> None:
    said = holdfast("ingest", "letters")
    assert said.exit_code == 0, said.output
    assert "letters: 2 new" in said.output
    assert "All 2 are done." in said.output
    found = holdfast("search", "spring tide")
    assert " 1. tides.txt  On tides\n" in found.output
    assert "The spring tide comes twice a month" in found.output


@pytest.mark.parametrize("question", ["", " ", "!!!", "?_"])
def test_a_question_without_words_is_refused(holdfast: Run, letters: Path, question: str) -> None:
    holdfast("ingest", "letters")
    for way in ([], ["--words"], ["--meaning"]):
        said = holdfast("search", question, *way)
        assert said.exit_code == 2
        assert "a question needs words or numbers" in said.output


def test_a_source_that_is_not_there_is_refused_before_any_other_is_taken_in(holdfast: Run, letters: Path) -> None:
    said = holdfast("ingest", "letters", "lettres")
    assert said.exit_code == 2
    assert "there is no file or folder lettres" in said.output
    assert "2 new" not in said.output
    assert "letters: 2 new" in holdfast("ingest", "letters").output


def test_a_file_that_was_missing_when_read_is_shown_as_back(holdfast: Run, letters: Path) -> None:
    with open_store(f"sqlite:///{letters.parent}/holdfast.db") as store:
        library = rag.Library(store)
        library.submit_changes(str(letters))
        letters.rename(letters.parent / "away")
        library.drain()
    (letters.parent / "away").rename(letters)
    assert "letters: 2 back\n  to read: 2 files" in holdfast("plan", "letters").output
    said = holdfast("ingest", "letters")
    assert "letters: 2 back" in said.output
    assert "All 2 are done." in said.output


def test_nothing_new_costs_nothing(holdfast: Run, letters: Path) -> None:
    holdfast("ingest", "letters")
    said = holdfast("ingest", "letters")
    assert "letters: 2 unchanged" in said.output
    assert "Nothing to do. All" in said.output


def test_answers_are_json_for_programs(holdfast: Run, letters: Path) -> None:
    holdfast("ingest", "letters")
    answer = json.loads(holdfast("search", "anchor in sand", "--json", "--limit", "1").output)
    (found,) = answer["found"]
    assert answer["question"] == "anchor in sand"
    assert (found["key"], found["kind"], found["page"], found["by_words"]) == ("anchors.md", "markdown", 1, 1)


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        (["--type", "text"], ["tides.txt"]),
        (["--path", "*.md"], ["anchors.md"]),
        (["--document", "tides.txt"], ["tides.txt"]),
        (["--type", "pdf"], []),
        (["--where", "case=12"], []),
    ],
)
def test_answers_are_narrowed_down(holdfast: Run, letters: Path, options: list[str], keys: list[str]) -> None:
    holdfast("ingest", "letters")
    answer = json.loads(holdfast("search", "anchor tide moon sand", "--json", *options).output)
    assert [found["key"] for found in answer["found"]] == keys


def test_a_source_is_named_as_it_was_ingested(holdfast: Run, letters: Path) -> None:
    holdfast("ingest", "letters")
    for source in ("letters", "letters/", f"{letters}", f"{letters}/", f"file://{letters}", "letters/*.txt"):
        assert "tides.txt" in holdfast("search", "tide", "--source", source).output
    said = holdfast("search", "tide", "--source", "letters/tides.txt")
    assert said.exit_code == 2
    assert f"nothing was ingested from letters/tides.txt; sources are: {letters}" in said.output


def test_a_service_without_its_key_is_refused_before_anything_is_read(
    holdfast: Run, letters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "AZURE_DOCUMENT_INTELLIGENCE_KEY"):
        monkeypatch.delenv(variable, raising=False)
    holdfast("collection", "create", "asked", "--embedder", "openai:text-embedding-3-small")
    holdfast("collection", "create", "read", "--embedder", "hash:64", "--reader", "azure")
    for collection, variable in (("asked", "OPENAI_API_KEY"), ("read", "AZURE_DOCUMENT_INTELLIGENCE")):
        said = holdfast("ingest", "letters", "--collection", collection)
        assert said.exit_code == 2
        assert "set the environment variable " + variable in said.output
        assert "0 documents" in holdfast("collection", "list").output


def test_an_unknown_name_lists_all_that_it_could_be(holdfast: Run, letters: Path) -> None:
    holdfast("ingest", "letters")
    said = holdfast("plan", "lettres")
    assert said.exit_code == 2
    assert "there is no folder, file or module lettres" in said.output
    said = holdfast("pipeline", "verify", "document")
    assert said.exit_code == 2
    assert "there is no file and no module document" in said.output
    assert "collections are: documents" in said.output


def test_a_search_in_a_collection_without_documents_says_so(holdfast: Run, letters: Path) -> None:
    assert holdfast("search", "tide").output == "Nothing was found: documents has no documents yet.\n"


def test_metadata_is_given_at_ingest_and_asked_for_by_search(holdfast: Run, letters: Path) -> None:
    said = holdfast("ingest", "letters", "--meta", "client=acme", "--meta", "year=2024")
    assert said.exit_code == 0, said.output
    found = json.loads(holdfast("search", "tide", "--where", "client=acme", "--where", "year=2024", "--json").output)
    assert found["found"][0]["metadata"] == {"client": "acme", "year": 2024}
    assert "Nothing was found" in holdfast("search", "tide", "--where", 'year="2024"').output
    again = holdfast("ingest", "letters", "--meta", "client=null")
    assert "letters: 2 unchanged; new metadata for 2 documents" in again.output
    assert "tides.txt" in holdfast("search", "tide", "--where", "client=null").output
    assert "--meta takes NAME=VALUE, not 'acme'" in holdfast("ingest", "letters", "--meta", "acme").output


def test_what_failed_is_shown_with_the_command_that_tries_it_again(holdfast: Run, letters: Path) -> None:
    (letters / "broken.pdf").write_bytes(b"%PDF-1.7 and then nothing of use")
    said = holdfast("ingest", "letters")
    assert said.exit_code == 1
    assert "1 dead letter:\n  broken.pdf at extract: " in said.output
    assert "again: holdfast ingest letters --retry" in said.output
    again = holdfast("ingest", "letters", "--retry")
    assert "1 dead letter is tried again." in again.output
    assert again.exit_code == 1


def test_what_was_left_out_is_left_out_by_the_command_that_tries_again(holdfast: Run, letters: Path) -> None:
    (letters / "broken.pdf").write_bytes(b"%PDF-1.7 and then nothing of use")
    said = holdfast("ingest", "letters", "--ignore", "*.md", "--flat")
    assert "again: holdfast ingest letters --ignore '*.md' --flat --retry" in said.output


def test_a_source_that_is_not_there_is_a_sentence(holdfast: Run, letters: Path) -> None:
    said = holdfast("ingest", "lettres")
    assert said.exit_code == 2
    assert "lettres" in said.output


def test_what_came_from_a_folder_that_is_gone_can_be_taken_out(holdfast: Run, letters: Path) -> None:
    holdfast("ingest", "letters")
    shutil.rmtree(letters)
    said = holdfast("ingest", "letters")
    assert said.exit_code == 2
    way_out = "holdfast collection forget documents letters"
    assert f"If it no longer exists, remove its documents from the index: {way_out}" in said.output
    assert holdfast(*way_out.split()[1:], "--yes").output == (
        f"Removed 2 documents of {letters.resolve()} from the collection documents.\n"
    )
    assert "Nothing was found" in holdfast("search", "spring tide").output
    assert str(letters) not in holdfast("collection", "show", "documents").output


def test_a_source_that_nothing_came_from_cannot_be_forgotten(holdfast: Run, letters: Path) -> None:
    holdfast("ingest", "letters")
    said = holdfast("collection", "forget", "documents", "lettres", "--yes")
    assert said.exit_code == 2
    assert f"nothing was ingested from lettres; sources are: {letters.resolve()}" in said.output


NOWHERE = "http://127.0.0.1:1/x.pdf"
"""No server listens there, with or without a network."""


def test_a_source_that_cannot_be_reached_is_a_line_and_the_others_are_taken_in(holdfast: Run, letters: Path) -> None:
    (letters / "broken.pdf").write_bytes(b"%PDF-1.7 and then nothing of use")
    said = holdfast("ingest", NOWHERE, "letters", "--allow-private")
    assert said.exit_code == 4, "not 1, as for the dead letter"
    (line,) = [line for line in said.output.splitlines() if line.startswith(NOWHERE)]
    assert f"{NOWHERE}: could not be reached, so its documents stay as they are: 127.0.0.1 does not answer" in line
    assert "letters: 3 new" in said.output
    assert "2 of 3 are done." in said.output
    assert "1 source could not be reached. Try again with the same command:\n  holdfast ingest http" in said.output
    told = holdfast("ingest", NOWHERE, "--allow-private", "--json")
    summary = json.loads(told.stdout.splitlines()[-1])
    assert (summary["sources_away"], summary["exit_code"], told.exit_code) == ([NOWHERE], 4, 4)


def test_a_plan_of_a_source_that_cannot_be_reached_says_so(holdfast: Run, letters: Path) -> None:
    said = holdfast("plan", NOWHERE, "--allow-private")
    assert said.exit_code == 4
    assert said.output.startswith(f"Error: {NOWHERE}: could not be reached")
    assert "Traceback" not in said.output


@pytest.mark.parametrize("words", [("ingest", "letters"), ("plan", "letters"), ("watch", "letters")])
def test_without_its_extra_it_says_what_to_install_before_documents_fail(
    holdfast: Run, letters: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    result = holdfast(*words)
    assert result.exit_code == 2
    assert (
        "document search needs packages that are not installed (pypdfium2): pip install 'holdfast-pipelines[rag]'"
        in result.stderr
    )


def test_who_only_searches_needs_no_parsers(holdfast: Run, letters: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    holdfast("ingest", "letters")
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    assert "anchors.md" in holdfast("search", "anchor").output


def test_an_embedder_that_does_not_exist_is_refused_before_anything_is_made(holdfast: Run, letters: Path) -> None:
    said = holdfast("collection", "create", "small", "--embedder", "granit")
    assert said.exit_code == 2
    assert "there is no embedder 'granit'; use granite" in said.output
    assert "small" not in holdfast("collection", "list").output
    assert holdfast("collection", "configure", "documents", "--embedder", "openai:").exit_code == 2
    assert holdfast("ingest", "letters").exit_code == 0


def test_collections_are_made_shown_changed_and_deleted(holdfast: Run, letters: Path) -> None:
    holdfast("collection", "create", "small", "--size", "60", "--overlap", "0", "--embedder", "hash:64")
    assert "exists" in (said := holdfast("collection", "create", "small")).output or "already" in said.output
    holdfast("ingest", "letters", "-c", "small")
    shown = json.loads(holdfast("collection", "show", "small", "--json").output)
    assert (shown["documents"], shown["states"], shown["settings"]["splitting"]["size"]) == (2, {"COMPLETED": 2}, 60)
    assert "chunks of 40 characters" in holdfast("collection", "configure", "small", "--size", "40").output
    holdfast("ingest", "-c", "small")
    answer = json.loads(holdfast("search", "spring tide moon", "-c", "small", "--json").output)
    assert max(len(found["text"]) for found in answer["found"]) <= 40
    assert [line.split()[0] for line in holdfast("collection", "list").output.splitlines()] == ["documents", "small"]
    assert holdfast("collection", "delete", "small", "--yes").exit_code == 0
    assert "there is no collection 'small'" in holdfast("collection", "show", "small").output
    assert "letters: 2 new" in holdfast("ingest", "letters", "-c", "small").output


def test_a_collection_shows_languages_and_for_which_its_model_was_made(holdfast: Run, letters: Path) -> None:
    created = holdfast("collection", "create", "scans", "--ocr-languages", "eng+deu").output
    assert "granite; local, OCR in eng, deu" in created
    shown = holdfast("collection", "show", "scans").output
    assert "granite is a model for English; other languages are found by their words" in shown
    holdfast("collection", "create", "any", "--embedder", "hash:64")
    holdfast("ingest", "letters", "-c", "any")
    shown = holdfast("collection", "show", "any").output
    assert "languages: 2 en" in shown
    assert "model for English" not in shown
    assert "use names such as" in holdfast("collection", "configure", "any", "--ocr-languages", "german").output


def test_the_words_of_an_index_are_made_again(holdfast: Run, letters: Path) -> None:
    holdfast("ingest", "letters")
    assert "Nothing to do" in holdfast("collection", "rebuild").output
    with closing(sqlite3.connect("holdfast.db")) as db, db:
        db.execute("update rag_tokenizer set version = 1")
    refused = holdfast("search", "tide", "--words")
    assert refused.exit_code == 2
    assert "holdfast collection rebuild" in refused.output
    assert json.loads(holdfast("collection", "rebuild", "--json").output) == {"documents": 2}
    assert holdfast("search", "tide", "--words").exit_code == 0


def test_collections_are_looked_at_while_somebody_writes(holdfast: Run, letters: Path) -> None:
    holdfast("ingest", "letters")
    with closing(sqlite3.connect("holdfast.db", isolation_level=None)) as writer:
        writer.execute("begin immediate")
        assert "2 documents" in holdfast("collection", "list").output
        assert "COMPLETED   2" in holdfast("collection", "show", "documents").output


def test_a_store_of_other_pipelines_has_no_collections(holdfast: Run, folder: Path) -> None:
    holdfast("run", "papers.py", "docs")
    assert "There are no collections yet" in holdfast("collection", "list").output
    assert "there is no collection 'documents'" in holdfast("search", "anything").output


def test_an_impossible_splitting_is_refused(holdfast: Run, letters: Path) -> None:
    said = holdfast("collection", "create", "odd", "--size", "10", "--overlap", "20")
    assert said.exit_code == 2
    assert "overlap" in said.output


def test_chunks_that_the_embedder_would_not_read_to_their_end_are_refused(holdfast: Run, letters: Path) -> None:
    assert "tokens chunks of 450 tokens, 90 shared" in holdfast("collection", "create", "a", "--split", "tokens").output
    for words in (["create", "b", "--split", "tokens"], ["configure", "a"]):
        said = holdfast("collection", *words, "--size", "511")
        assert said.exit_code == 2
        assert "chunks of 511 tokens are longer than the 510 that granite reads" in said.output
    assert "chunks of 510 tokens" in holdfast("collection", "configure", "a", "--size", "510").output
    assert "chunks of 1,000 characters, 200" in holdfast("collection", "configure", "a", "--split", "markdown").output
    large = ["--split", "tokens", "--size", "8000", "--embedder", "openai:text-embedding-3-small"]
    assert holdfast("collection", "create", "b", *large).exit_code == 0
    assert holdfast("collection", "configure", "b", "--embedder", "granite").exit_code == 2


def test_searching_before_anything_was_ingested_says_so(holdfast: Run, folder: Path) -> None:
    for words in (["search", "anything"], ["collection", "list"], ["serve", "--port", "0"]):
        said = holdfast(*words)
        assert said.exit_code == 3
        assert "there is no store" in said.output
        assert said.output.rstrip().endswith("or create one with `holdfast ingest`")


def test_an_empty_folder_is_reported(holdfast: Run, folder: Path) -> None:
    (folder / "empty").mkdir()
    said = holdfast("ingest", "empty").output
    assert "has no documents yet; no file was found that can be ingested." in said


def test_a_plan_says_what_an_ingest_would_do(holdfast: Run, letters: Path) -> None:
    (letters / "program.bin").write_bytes(b"\x7fELF and more")
    said = holdfast("plan", "letters").output
    assert "letters: 3 new\n  to read: 2 files with about 2 pages\n" in said
    assert "would be rejected: program.bin: " in said
    assert "cost: nothing; the model runs on this machine" in said
    holdfast("ingest", "letters")
    assert "letters: 3 unchanged\n  Nothing has to be read." in holdfast("plan", "letters").output


def test_a_plan_counts_what_an_ingest_reads(holdfast: Run, letters: Path) -> None:
    """It counts pages by form feeds, chunks by the length of texts, and attachments of messages."""
    (letters / "log.txt").write_text("\f".join(["A page of the log. " * 100] * 40))
    message = EmailMessage()
    message.set_content("See the chart.")
    message.add_attachment("Rocks lie north of the harbour.", filename="rocks.txt")
    (letters / "mail.eml").write_bytes(bytes(message))
    foretold = json.loads(holdfast("plan", "letters", "--json").output)
    holdfast("ingest", "letters")
    (made,) = [json.loads(holdfast("collection", "show", "documents", "--json").output)["counters"]]
    assert foretold["pages"] == made["pages_extracted"] == 44
    assert abs(foretold["chunks"] - made["chunks_created"]) <= made["chunks_created"] // 10


def test_a_budget_stops_an_ingest_and_the_command_that_goes_on_is_shown(holdfast: Run, letters: Path) -> None:
    for number in range(8):
        (letters / f"{number}.txt").write_text(f"Letter {number} about the tide. " * 20)
    said = holdfast("ingest", "letters", "--budget-pages", "3", "--threads", "1")
    assert said.exit_code == 0
    assert "Stopped: the budget of the collection is spent (" in said.output
    assert "Continue with a larger budget:\n  holdfast ingest letters --budget-pages 6\n" in said.output
    again = holdfast("ingest", "letters")
    assert "Stopped: the budget of the collection is spent (" in again.output
    assert "All 10 are done." in holdfast("ingest", "letters", "--budget-pages", "100").output


def test_a_budget_of_money_needs_a_price_and_a_budget_of_time_needs_a_unit(holdfast: Run, letters: Path) -> None:
    said = holdfast("ingest", "letters", "--budget", "5.00")
    assert said.exit_code == 2
    assert "a budget of money needs a price: --price" in said.output
    assert holdfast("ingest", "letters", "--budget", "5.00", "--price", "0.02").exit_code == 0
    assert holdfast("ingest", "letters", "--budget", "15m").exit_code == 0
    shown = json.loads(holdfast("collection", "show", "documents", "--json").output)["budget"]
    assert (shown["money"], shown["price"], shown["spent_pages"]) == (5.0, 0.02, 2)
    assert "  budget: about 0.00" in holdfast("collection", "show", "documents").output
    assert holdfast("ingest", "letters", "--new-budget").exit_code == 0
    assert json.loads(holdfast("collection", "show", "documents", "--json").output).get("budget") is None


def test_one_document_is_forgotten_by_its_key_alone(holdfast: Run, letters: Path) -> None:
    holdfast("ingest", "letters")
    assert "Removed 1 document of " in holdfast("collection", "forget", "documents", "tides.txt", "--yes").output
    assert "tides.txt" not in holdfast("search", "tide").output
    assert holdfast("collection", "forget", "documents", "tides.txt", "--yes").exit_code != 0
    other = letters.parent / "other"
    other.mkdir()
    (other / "anchors.md").write_text("# Other anchors")
    holdfast("ingest", "other")
    said = holdfast("collection", "forget", "documents", "anchors.md", "--yes")
    assert "anchors.md is in several sources: " in said.output
    assert said.exit_code != 0


def test_a_plan_shows_costs_below_a_cent(holdfast: Run, letters: Path) -> None:
    holdfast("collection", "create", "paid", "--embedder", "openai:text-embedding-3-small")
    said = holdfast("plan", "letters", "--collection", "paid", "--price", "0.02").output
    tokens = json.loads(holdfast("plan", "letters", "--collection", "paid", "--json").output)["tokens"]
    assert f"cost: about {format_money(tokens * 0.02 / 1_000_000)}\n" in said
    assert "about 0.00\n" not in said


def test_a_plan_with_a_paid_reader_never_says_that_it_costs_nothing(holdfast: Run, letters: Path) -> None:
    (letters / "scan.pdf").write_bytes(pdf(["Spring tides follow the full moon."] * 3))
    holdfast("collection", "create", "paid", "--reader", "azure")
    said = holdfast("plan", "letters", "--collection", "paid").output
    assert "cost: unknown; a service reads 3 pages: give the price of a thousand pages with --page-price" in said
    said = holdfast("plan", "letters", "--collection", "paid", "--page-price", "1.50").output
    assert "cost: about 0.0045\n" in said


def test_a_plan_predicts_new_chunks(holdfast: Run, letters: Path) -> None:
    holdfast("ingest", "letters")
    holdfast("collection", "configure", "documents", "--size", "40", "--overlap", "0")
    said = holdfast("plan", "letters").output
    assert "letters: 2 unchanged\n  Nothing has to be read.\n" in said
    assert "to redo from chunk on: 2 documents, about 4 chunks (settings of chunk changed: " in said
    outlook = json.loads(holdfast("plan", "letters", "--json").output)
    assert (outlook["chunks"], outlook["again"][0]["documents"], outlook["tokens"]) == (4, 2, 35)
    holdfast("ingest", "letters")
    assert json.loads(holdfast("plan", "letters", "--json").output)["again"] == []


def test_a_plan_predicts_what_another_model_embeds(holdfast: Run, letters: Path) -> None:
    holdfast("ingest", "letters")
    holdfast("collection", "configure", "documents", "--embedder", "hash:32")
    outlook = json.loads(holdfast("plan", "letters", "--json").output)
    (again,) = outlook["again"]
    assert (again["step"], again["documents"], again["chunks"], outlook["chunks"]) == ("embed", 2, 2, 2)
    assert outlook["tokens"] == 35
    said = holdfast("plan", "letters").output
    assert "to redo from embed on: 2 documents, 2 chunks to embed (settings of embed changed: model " in said
    holdfast("ingest", "letters")
    holdfast("collection", "configure", "documents", "--embedder", "hash:64")
    (again,) = json.loads(holdfast("plan", "letters", "--json").output)["again"]
    assert (again["documents"], again["chunks"]) == (2, 0), "those vectors are still remembered"


def test_a_plan_counts_a_file_that_changed_or_went_only_once(holdfast: Run, letters: Path) -> None:
    holdfast("ingest", "letters")
    holdfast("collection", "configure", "documents", "--embedder", "hash:32")
    (letters / "tides.txt").write_text("Neap tides come at half moon.")
    (letters / "anchors.md").unlink()
    outlook = json.loads(holdfast("plan", "letters", "--json").output)
    assert (outlook["changes"], outlook["again"]) == ({"changed": 1, "deleted": 1}, [])


def test_a_plan_shows_unfinished_documents(holdfast: Run, letters: Path) -> None:
    from holdfast.engine.api import opened
    from holdfast.pipelines.rag import Library

    with opened("sqlite:///holdfast.db") as store:
        Library(store).submit_changes("letters")
    assert "to continue, in addition: 2 at extract" in holdfast("plan", "letters").output


def test_a_plan_looks_as_an_ingest_with_the_same_options_would(holdfast: Run, letters: Path) -> None:
    (letters / "old").mkdir()
    (letters / "old" / "log.txt").write_text("Wind from the west.")
    holdfast("ingest", "letters")
    options = ("--ignore", "*.md", "--flat", "--allow-private")
    foreseen = json.loads(holdfast("plan", "letters", *options, "--json").output)
    assert foreseen["changes"] == {"unchanged": 1, "deleted": 2}
    assert "letters: 2 deleted, 1 unchanged" in holdfast("ingest", "letters", *options).output


def test_a_plan_makes_no_store(holdfast: Run, folder: Path) -> None:
    outlook = json.loads(holdfast("plan", "docs", "--json").output)
    assert (outlook["changes"], outlook["documents"], outlook["embedder"]) == ({"new": 2}, 2, "granite")
    assert not (folder / "holdfast.db").exists()


def test_vectors_are_kept_in_qdrant_where_a_collection_says_so(holdfast: Run, letters: Path) -> None:
    pytest.importorskip("qdrant_edge", reason="this needs the extra qdrant")
    holdfast("ingest", "letters")
    said = holdfast("collection", "configure", "documents", "--index", "qdrant:points")
    points = f"qdrant:{letters.parent / 'points'}"
    assert f"; vectors in {points}\n" in said.output
    assert said.output.endswith(f"  searches use store until `holdfast ingest` has copied all vectors to {points}\n")
    assert "tides.txt" in holdfast("search", "spring tide", "--meaning").output, "searched where it was"
    assert not (letters.parent / "points").exists()
    assert holdfast("ingest", "letters").exit_code == 0
    assert len([*(letters.parent / "points").iterdir()]) == 1
    assert " 1. tides.txt" in holdfast("search", "spring tide", "--meaning").output
    (letters / "tides.txt").unlink()
    holdfast("ingest", "letters")
    assert holdfast("collection", "tidy").output == "Removed 1 unused vector and 0 unused documents.\n"
    assert json.loads(holdfast("collection", "tidy", "--json").output)["vectors"] == 0
    assert holdfast("collection", "delete", "documents", "--yes").exit_code == 0
    assert [*(letters.parent / "points").iterdir()] == []


def test_an_index_that_there_is_not_is_refused(holdfast: Run, letters: Path) -> None:
    said = holdfast("collection", "create", "odd", "--index", "chroma:here")
    assert said.exit_code == 2
    assert "use store, qdrant:FOLDER" in said.output


def test_a_collection_is_verified_by_its_name(holdfast: Run, letters: Path) -> None:
    holdfast("ingest", "letters")
    assert "checked 2 documents with 6 checks" in (said := holdfast("pipeline", "verify", "documents")).output
    assert (said.exit_code, "2 fine" in said.output) == (0, True)
    with closing(sqlite3.connect("holdfast.db")) as db:
        db.execute("delete from rag_meaning where document_id = (select min(id) from rag_document)")
        db.commit()
    said = holdfast("pipeline", "verify", "documents")
    assert said.exit_code == 1
    assert "1 fine, 1 gone and to be redone" in said.output
    assert "redo it: holdfast ingest --collection documents\n" in said.output
    assert holdfast("ingest", "--collection", "documents").exit_code == 0
    assert holdfast("pipeline", "verify", "documents").exit_code == 0
    assert "no batch 'lettres'" in holdfast("pipeline", "verify", "documents", "--batch", "lettres").output


def test_a_file_that_was_deleted_is_not_missed(holdfast: Run, letters: Path) -> None:
    holdfast("ingest", "letters")
    (letters / "tides.txt").unlink()
    assert "1 of 1 document (100%): 1 done\n" in holdfast("ingest", "letters").output
    assert "gone" not in (said := holdfast("pipeline", "verify", "documents")).output
    assert said.exit_code == 0
    assert "Nothing to do. All" in holdfast("ingest", "letters").output


def test_cancelled_documents_are_shown_and_deleted_files_are_not(holdfast: Run, letters: Path) -> None:
    (letters / "third.txt").write_text("A third letter.")
    holdfast("ingest", "letters")
    (letters / "tides.txt").unlink()
    (letters / "anchors.md").write_text("Another text about anchors.")
    with open_store("sqlite:///holdfast.db") as store:
        rag.Library(store).submit_changes("letters")
    holdfast("doc", "cancel", "anchors.md", "--reason", "x")
    assert "2 of 2 documents (100%): 1 done, 1 cancelled\n" in holdfast("ingest", "letters").output


@pytest.mark.parametrize("changed", [("--embedder", "hash:32"), ("--size", "40", "--overlap", "0")])
def test_work_that_new_settings_have_not_done_yet_is_not_verified(
    holdfast: Run, letters: Path, changed: tuple[str, ...]
) -> None:
    holdfast("ingest", "letters")
    holdfast("collection", "configure", "documents", *changed)
    said = holdfast("pipeline", "verify", "documents")
    assert said.exit_code == 2
    assert "run `holdfast ingest --collection documents`, then verify again" in said.output
    holdfast("ingest", "letters")
    assert holdfast("pipeline", "verify", "documents").exit_code == 0


def test_the_vectors_in_use_are_shown_until_the_new_ones_exist(holdfast: Run, letters: Path) -> None:
    holdfast("ingest", "letters")
    line = "  searches use hash:64 until `holdfast ingest` has made all new vectors\n"
    assert line not in holdfast("collection", "show", "documents").output
    assert holdfast("collection", "configure", "documents", "--embedder", "hash:32").output.endswith(line)
    assert line in holdfast("collection", "show", "documents").output
    shown = json.loads(holdfast("collection", "show", "documents", "--json").output)
    assert (shown["searched"]["embedder"], shown["settings"]["embedder"]) == ("hash:64", "hash:32")
    holdfast("ingest", "letters")
    assert line not in holdfast("collection", "show", "documents").output
    shown = json.loads(holdfast("collection", "show", "documents", "--json").output)
    assert shown["searched"] == {"embedder": "hash:32", "index": "store"}


def test_a_collection_shows_its_retries_and_the_phase_of_failed_documents(holdfast: Run, letters: Path) -> None:
    (letters / "broken.pdf").write_bytes(b"%PDF-1.4 and no more")
    holdfast("ingest", "letters")
    told = holdfast("collection", "show", "documents").output
    assert "  FAILED      1  (1 EXTRACTING)\n" in told
    assert "retr" not in told
    holdfast("ingest", "letters", "--retry")
    assert "  1 retry of documents\n" in holdfast("collection", "show", "documents").output
    shown = json.loads(holdfast("collection", "show", "documents", "--json").output)
    assert shown["counters"]["retry_count"] == 1
    assert shown["failed_phases"] == {"EXTRACTING": 1}
    (letters / "broken.pdf").unlink()
    (letters / "broken.pdf").write_text("It is a text now.")
    holdfast("ingest", "letters", "--retry")
    shown = json.loads(holdfast("collection", "show", "documents", "--json").output)
    assert (shown["counters"]["retry_count"], "failed_phases" in shown) == (0, False), "another content"


def test_a_collection_adds_up_the_counters_of_its_documents(holdfast: Run, letters: Path) -> None:
    (letters / "log.txt").write_text("\f".join(f"Entry {number}. Wind from the west." for number in range(7)))
    holdfast("ingest", "letters")
    made = {"pages_extracted": 9, "chunks_created": 9, "chunks_embedded": 9, "chunks_indexed": 9, "retry_count": 0}
    assert json.loads(holdfast("collection", "show", "documents", "--json").output)["counters"] == made
    told = "  9 pages extracted, 9 chunks created, 9 embedded, 9 indexed\n"
    assert told in holdfast("collection", "show", "documents").output
    holdfast("collection", "configure", "documents", "--embedder", "hash:32")
    holdfast("ingest", "letters")
    assert told in holdfast("collection", "show", "documents").output
    (letters / "tides.txt").write_text("Neap tides.")
    (letters / "anchors.md").unlink()
    holdfast("ingest", "letters")
    told = "  8 pages extracted, 8 chunks created, 8 embedded, 8 indexed\n"
    assert told in holdfast("collection", "show", "documents").output


def test_one_document_is_forgotten_by_its_key(holdfast: Run, letters: Path) -> None:
    holdfast("ingest", "letters")
    asked = holdfast("collection", "forget", "documents", "letters", "--document", "tides.txt", stdin="y\n")
    assert "Remove tides.txt of " in asked.output
    assert "Removed 1 document of " in asked.output
    assert "tides.txt" not in holdfast("search", "tide", "--words").output
    refused = holdfast("collection", "forget", "documents", "letters", "--document", "tide.txt", "--yes")
    assert refused.exit_code == 2
    assert "has no document 'tide.txt'" in refused.output


def test_a_type_that_there_is_not_is_refused_with_those_that_there_are(holdfast: Run, letters: Path) -> None:
    holdfast("ingest", "letters")
    said = holdfast("search", "tide", "--type", "txt")
    assert said.exit_code == 2
    assert "documents has no documents of type txt; it has: markdown, text" in said.output
    said = holdfast("search", "tide", "--type", "pdf")
    assert said.exit_code == 0, "there could be some"
    assert "Nothing was found: documents has no documents of type pdf; it has: markdown, text." in said.output


def test_words_and_meaning_exclude_each_other(holdfast: Run, letters: Path) -> None:
    holdfast("ingest", "letters")
    said = holdfast("search", "tide", "--words", "--meaning")
    assert said.exit_code == 2
    assert "--words and --meaning exclude each other" in said.output
    for one in ("--words", "--meaning"):
        assert " 1. tides.txt" in holdfast("search", "spring tide", one).output


def test_the_stores_own_files_are_no_documents(letters: Path, holdfast: Run) -> None:
    beside = ("--store", f"sqlite:///{letters.name}/papers.db")
    holdfast("collection", "create", "documents", "--embedder", "hash:64", *beside)
    done = holdfast("ingest", letters.name, *beside)
    assert (done.exit_code, "dead" in done.output) == (0, False), done.output
    assert "new" not in holdfast("ingest", letters.name, *beside).output
    assert "an SQLite database" in holdfast("ingest", f"{letters.name}/papers.db", *beside).output


def test_no_name_of_a_file_reaches_the_terminal_as_a_command(holdfast: Run, letters: Path) -> None:
    red = "\x1b[31mred\nfree tide.txt"
    (letters / red).write_text("The neap tide comes at half moon.")
    (letters / f"broken {red}.pdf").write_bytes(b"%PDF-1.7 and then nothing of use")
    (letters / f"nowhere {red}").symlink_to("nowhere")
    (letters / f"program {red}").write_bytes(b"\x7fELF and more")
    commands = (
        ["plan", "letters"],
        ["ingest", "letters"],
        ["search", "neap", "tide"],
        ["status"],
        ["dead", "list"],
        ["show", red],
        ["explain", f"broken {red}.pdf"],
    )
    for words in commands:
        said = holdfast(*words).output
        assert "\x1b" not in said, words
        assert "red\nfree" not in said, words
        assert "[31mred" in said, words
    assert " 1. \ufffd[31mred\ufffdfree tide.txt" in holdfast("search", "neap", "tide").output


def test_a_command_about_such_a_name_can_be_pasted(holdfast: Run, letters: Path) -> None:
    import subprocess

    broken = "it's \x1b[31m a\nb\\n.pdf"
    (letters / broken).write_bytes(b"%PDF-1.7 and then nothing of use")
    said = holdfast("ingest", "letters").output
    (command,) = [line.split(":", 1)[1] for line in said.splitlines() if line.startswith("  why:")]
    printed = ["bash", "-c", f'holdfast() {{ printf %s "$2"; }}; {command}']
    assert subprocess.run(printed, capture_output=True, text=True, check=True).stdout == broken


def test_a_missing_embedder_is_named(holdfast: Run, letters: Path) -> None:
    with open_store("sqlite:///holdfast.db") as store:
        rag.Library(store, "typos", embedder=CustomEmbedder()).ingest(str(letters))
    for words in (["search", "tide"], ["search", "tide", "--meaning"], ["ingest", "letters"], ["plan", "letters"]):
        said = holdfast(*words, "-c", "typos")
        assert said.exit_code == 2, said.output
        assert "'typos' was made with the custom embedder 'own-8'" in said.output
    assert "tides.txt" in holdfast("search", "tide", "-c", "typos", "--words").output
    assert "; own:own-8; " in holdfast("collection", "show", "typos").output
    assert holdfast("collection", "configure", "typos", "--embedder", "hash:64").exit_code == 0
    assert holdfast("ingest", "letters", "-c", "typos").exit_code == 0
    assert "tides.txt" in holdfast("search", "tide", "-c", "typos", "--meaning").output


def test_a_collection_that_is_deleted_while_it_is_ingested_is_reported(
    holdfast: Run, letters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_worker = ingest.run_worker

    def deleting(*args: Any, **more: Any) -> Any:
        assert holdfast("collection", "delete", "documents", "--yes").exit_code == 0
        return run_worker(*args, **more)

    monkeypatch.setattr(ingest, "run_worker", deleting)
    said = holdfast("ingest", "letters")
    assert said.exit_code == 2
    assert "there is no collection 'documents'" in said.output


def test_links_out_of_a_folder_are_counted_and_followed_only_when_told(
    holdfast: Run, letters: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret.txt").write_text("The password of the harbour master is plover.")
    for number in range(9):
        (letters / f"link{number}.txt").symlink_to(tmp_path / "secret.txt")
    said = holdfast("ingest", "letters")
    assert said.exit_code == 0, said.output
    assert "letters: 2 new" in said.output
    assert "skipped: link0.txt: a link that leads outside of the folder" in said.output
    assert "and 4 more were skipped: a link that leads outside of the folder" in said.output
    assert "plover" not in holdfast("search", "plover").output
    said = holdfast("ingest", "letters", "--follow-symlinks")
    assert "letters: 9 new" in said.output
    assert "plover" in holdfast("search", "plover").output
    assert "letters: 9 deleted, 2 unchanged" in holdfast("ingest", "letters").output
    assert "plover" not in holdfast("search", "plover").output


def test_documents_without_text_are_named_with_the_reason(holdfast: Run, letters: Path) -> None:
    (letters / "blank.html").write_text("<html><script>x</script></html>")
    said = holdfast("ingest", "letters")
    assert said.exit_code == 0, said.output
    assert "1 document is done and has no text" in said.output + said.stderr
    assert "1 document is done and has no text" in holdfast("collection", "show", "documents").output
    listed = holdfast("collection", "show", "documents", "--empty")
    assert listed.output == "blank.html  no_text: the file has no text\n"
    (row,) = json.loads(holdfast("collection", "show", "documents", "--empty", "--json").output)
    assert (row["key"], row["code"]) == ("blank.html", "no_text")
