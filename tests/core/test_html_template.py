"""Templates: every value is escaped, sections repeat or vanish, and a wrong template is refused."""

from __future__ import annotations

import pytest

from holdfast.core.html_template import HtmlTemplate


def test_every_value_is_escaped() -> None:
    page = HtmlTemplate('<p title="{{a}}">{{#all}}{{.}}{{/all}}</p>').render({"a": '"&', "all": ["<b>"]})
    assert page == '<p title="&quot;&amp;">&lt;b&gt;</p>'


def test_a_section_is_repeated_for_each_item_and_sees_what_is_around_it() -> None:
    template = HtmlTemplate("{{#rows}}{{name}}{{unit}} {{/rows}}")
    assert template.render({"unit": "kg", "rows": [{"name": 1}, {"name": 2, "unit": "t"}]}) == "1kg 2t "


@pytest.mark.parametrize(("value", "page"), [("", "none"), ([], "none"), (0, "none"), ("a", "some")])
def test_a_section_of_nothing_is_left_out(value: object, page: str) -> None:
    assert HtmlTemplate("{{#a}}some{{/a}}{{^a}}none{{/a}}").render({"a": value}) == page


def test_a_tag_on_its_own_line_leaves_no_empty_line() -> None:
    assert HtmlTemplate("a\n  {{#b}}\nb\n{{/b}}\nc\n").render({"b": True}) == "a\nb\nc\n"


def test_a_value_in_braces_is_not_a_tag() -> None:
    assert HtmlTemplate("{{a}}").render({"a": "{{b}}"}) == "{{b}}"


def test_a_name_that_is_not_given_is_an_error() -> None:
    with pytest.raises(KeyError, match="'b'"):
        HtmlTemplate("{{b}}").render({"a": 1})


@pytest.mark.parametrize("text", ["{{#a}}", "{{#a}}{{/b}}", "{{/a}}"])
def test_a_section_that_is_not_closed_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="close"):
        HtmlTemplate(text)
