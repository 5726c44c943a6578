"""A small HTML template: the layout is in a file, and every value is escaped.

    {{name}}                     the value, escaped; {{.}} is the current item of a list of texts
    {{#name}} ... {{/name}}      once for each item of a list; once for a value that is true; else not at all
    {{^name}} ... {{/name}}      only if the value is false or empty

Inside a section, the fields of the item are found first, then those around it. There is no way to insert a value
without escaping, and a name that is not given is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

_TAG = re.compile(r"\{\{([#^/]?)([\w.]+)\}\}")
_TAG_ON_ITS_OWN_LINE = re.compile(r"^[ \t]*(\{\{[#^/][\w.]+\}\})[ \t]*\n", re.MULTILINE)

_Node = tuple[str, str, "list[_Node]"]
"""A kind ("text", "value", "#" or "^"), the text or the name, and what is inside a section."""


class HtmlTemplate:
    """A template that was read from a file."""

    def __init__(self, text: str) -> None:
        parts = iter(_TAG.split(_TAG_ON_ITS_OWN_LINE.sub(r"\1", text)))
        self._nodes = _parse(parts, section="")

    def render(self, values: Mapping[str, Any]) -> str:
        """Return the page with these values.

        Raises:
            KeyError: A name in the template has no value.
        """
        return "".join(_render(self._nodes, [values]))


def _parse(parts: Iterator[str], section: str) -> list[_Node]:
    """Read nodes up to the end of a section. The parts are: text, kind, name, text, kind, name, ..., text."""
    nodes: list[_Node] = [("text", next(parts), [])]
    for kind in parts:
        name = next(parts)
        if kind == "/":
            if name != section:
                raise ValueError(f"the template closes {name!r} inside {section!r}")
            return nodes
        nodes.append((kind, name, _parse(parts, name)) if kind else ("value", name, []))
        nodes.append(("text", next(parts), []))
    if section:
        raise ValueError(f"the template does not close {section!r}")
    return nodes


def _render(nodes: Sequence[_Node], scopes: list[Any]) -> Iterator[str]:
    for kind, name, inside in nodes:
        if kind == "text":
            yield name
            continue
        value = _look_up(name, scopes)
        if kind == "value":
            yield escape(str(value))
        elif kind == "#" and isinstance(value, (list, tuple)):
            for item in value:
                yield from _render(inside, [*scopes, item])
        elif (kind == "#") == bool(value):
            yield from _render(inside, [*scopes, value])


def _look_up(name: str, scopes: Sequence[Any]) -> Any:
    if name == ".":
        return scopes[-1]
    for scope in reversed(scopes):
        if isinstance(scope, Mapping) and name in scope:
            return scope[name]
    raise KeyError(f"the template needs {name!r}")
