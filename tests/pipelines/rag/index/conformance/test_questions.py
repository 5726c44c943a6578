"""What every index guarantees for phrases, excluded words, titles, runs of words, and languages."""

from __future__ import annotations

import pytest

from holdfast.pipelines.rag.index import Where
from holdfast.pipelines.rag.index.question import parse_question
from holdfast.pipelines.rag.values import DocumentInfo
from tests.support.index_harness import IndexHarness

SPRING = "the spring tide comes at new and at full moon"
NEAP = "the neap tide comes in spring, a week later"


@pytest.fixture
def tides(harness: IndexHarness) -> IndexHarness:
    harness.ingest("spring.txt", SPRING, about=DocumentInfo("text", "High water at the harbour", "en"))
    harness.ingest("neap.txt", NEAP, about=DocumentInfo("pdf", "Low water", "en"))
    return harness


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("spring tide", {SPRING, NEAP}),
        ('"spring tide"', {SPRING}),
        ('"Spring tides"', {SPRING}),
        ('"tide spring"', set()),
        ('tide "full moon" "spring tide"', {SPRING}),
        ('"spring tide" "neap tide"', set()),
        ("tide -neap", {SPRING}),
        ('tide -"spring tide"', {NEAP}),
        ("tide -heron", {SPRING, NEAP}),
        ("tide -spring", set()),
        ("-neap", {NEAP}),
        ('"spring tide', {SPRING, NEAP}),
    ],
)
def test_phrases_and_excluded_words(tides: IndexHarness, question: str, found: set[str]) -> None:
    assert set(tides.word_hits(question)) == found


def test_the_chunks_allowed_are_those_that_a_keyword_search_could_find(tides: IndexHarness) -> None:
    ids = {hit.chunk: hit for hit in tides.index.search_words(parse_question("tide"), Where(), limit=10)}
    texts = {number: stored.text for number, stored in tides.index.chunks([*ids]).items()}
    for question, allowed in {
        "tide": {SPRING, NEAP},
        'moon "spring tide"': {SPRING},
        "tide -neap": {SPRING},
        '"tide comes" -neap': {SPRING},
    }.items():
        found = tides.index.chunks_allowed(parse_question(question), [*ids])
        assert {texts[number] for number in found} == allowed


@pytest.mark.parametrize(
    ("where", "found"),
    [
        (Where(titles=("water",)), {SPRING, NEAP}),
        (Where(titles=("harbours",)), {SPRING}),
        (Where(titles=("high water",)), {SPRING}),
        (Where(titles=("water", "low")), {NEAP}),
        (Where(titles=("heron",)), set()),
        (Where(paths=("*.txt", "spring*")), {SPRING}),
        (Where(kinds=("pdf", "docx")), {NEAP}),
        (Where(kinds=("docx",)), set()),
        (Where(titles=("water",), kinds=("text",), path="s*"), {SPRING}),
    ],
)
def test_filters_of_questions(tides: IndexHarness, where: Where, found: set[str]) -> None:
    assert set(tides.word_hits("tide", where)) == found
    assert set(tides.vector_hits("tide", where)) == found


def test_runs_of_a_question_have_the_share_of_its_words(tides: IndexHarness) -> None:
    assert tides.run_hits("the spring tide comes") == {SPRING: 1.0}
    assert tides.run_hits("spring tide comes on sunday") == {SPRING: 3 / 5}
    assert tides.run_hits("the neap tide comes in winter, a week later") == {NEAP: 8 / 9}
    assert tides.run_hits("comes the tide") == {}
    assert tides.run_hits("full moon") == {SPRING: 1.0}
    assert tides.run_hits("the spring tide comes", Where(kind="pdf")) == {}


@pytest.mark.parametrize(
    ("language", "text", "question"),
    [
        ("de", "Die Häuser am Hafen wurden geschlossen", "Haus"),
        ("de", "Die Häuser am Hafen wurden geschlossen", "Häfen"),
        ("fr", "Les bateaux étaient amarrés", "bateau amarré"),
        ("es", "Las informaciones del puerto", "informacion"),
        ("ru", "Корабли стояли в гаванях", "корабль"),
        ("", "Une crème brûlée", "creme brulee"),
        ("ja", "大潮は月に二回起こります", "大潮"),
        ("ja", "大潮は月に二回起こります", "月"),
        ("zh", "港口的水位每天变化", "水位"),
        ("ko", "배가 항구에 있습니다", "항구"),
        ("th", "เรือจอดอยู่ที่ท่าเรือ", "ท่าเรือ"),
    ],
)
def test_words_are_found_in_the_language_of_their_document(
    harness: IndexHarness, language: str, text: str, question: str
) -> None:
    harness.ingest("other.txt", "The ships stood in the harbour", about=DocumentInfo("text", "", "en"))
    harness.ingest("own.txt", text, about=DocumentInfo("text", "", language))
    assert harness.word_hits(question) == [text]


def test_phrases_are_found_in_text_without_spaces(harness: IndexHarness) -> None:
    harness.ingest("a", "東京都の水道", about=DocumentInfo("text", "", "ja"))
    harness.ingest("b", "東京の京都水道", about=DocumentInfo("text", "", "ja"))
    assert harness.word_hits('"東京都"') == ["東京都の水道"]
    assert set(harness.word_hits('"東京"')) == {"東京の京都水道", "東京都の水道"}
    assert harness.word_hits('水道 -"東京都"') == ["東京の京都水道"]


def test_the_language_of_a_document_is_stored_with_each_version(harness: IndexHarness) -> None:
    harness.ingest("a", "Die Häuser", "am Hafen", about=DocumentInfo("text", "", "de"))
    harness.ingest("a", "The houses", "at the harbour", version=2, about=DocumentInfo("text", "", "en"))
    (hit, *_) = harness.index.search_words(parse_question("houses"), Where(), limit=5)
    assert harness.index.chunks([hit.chunk])[hit.chunk].language == "en"
    assert harness.word_hits("house harbours")
