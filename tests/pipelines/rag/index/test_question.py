"""Questions are parsed: phrases, excluded words and filters. No question is an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.pipelines.rag.index.question import MAX_PARTS, Question, parse_question


@pytest.mark.parametrize(
    ("question", "parsed"),
    [
        ("spring tide", Question(text="spring tide")),
        ('when is the "spring tide"?', Question(text="when is the spring tide", phrases=("spring tide",))),
        ("\u201cspring tide\u201d", Question(text="spring tide", phrases=("spring tide",))),
        ('("spring tide")', Question(text="spring tide", phrases=("spring tide",))),
        ("tide -neap", Question(text="tide", excluded=("neap",))),
        ('tide -"neap tide"', Question(text="tide", excluded=("neap tide",))),
        ("tide title:harbour", Question(text="tide", titles=("harbour",))),
        ('title:"spring tide"', Question(text="spring tide", titles=("spring tide",))),
        ("tide path:survey/*.pdf", Question(text="tide", paths=("survey/*.pdf",))),
        ("tide path:survey", Question(text="tide", paths=("*survey*",))),
        ("tide path:a[1]", Question(text="tide", paths=("*a[[]1]*",))),
        ("tide type:PDF type:docx", Question(text="tide", kinds=("pdf", "docx"))),
        ("type:pdf", Question(text="pdf", kinds=("pdf",))),
    ],
)
def test_the_syntax_is_read(question: str, parsed: Question) -> None:
    assert parse_question(question) == parsed


@pytest.mark.parametrize(
    "question",
    [
        '"spring tide',
        'spring" tide',
        'a 5" pipe and a 6" pipe',
        "well-known",
        "tides - and wind",
        "minus -20 degrees",
        "type:novel",
        "tide path:" + "*a" * 7,
        "author:ada",
        "title: tides",
        "title:",
        "-neap",
        '-"neap tide" -wind',
        '""',
        "-",
        "",
    ],
)
def test_what_is_not_syntax_is_words(question: str) -> None:
    assert parse_question(question) == Question(text=question)


def test_a_question_has_a_limited_number_of_parts() -> None:
    parsed = parse_question(" ".join(f'"phrase {n}" path:p{n}' for n in range(100)))
    assert (len(parsed.phrases), len(parsed.paths)) == (MAX_PARTS, MAX_PARTS)
    assert "phrase 99" in parsed.text


@given(st.text(st.sampled_from('ab "-:titlepathtype*?[()\u201c'), max_size=40) | st.text())
def test_any_question_is_parsed_and_keeps_a_word_if_it_has_one(question: str) -> None:
    parsed = parse_question(question)
    if any(character.isascii() and character.isalnum() for character in question):
        assert any(map(str.isalnum, parsed.text))
