"""The page that people search with: a form and answers, in one file, with nothing to load and no script."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from msgspec import Struct

from holdfast.web.shelves import Found

PAGED = ("pdf", "pptx", "xlsx", "tiff")
"""What has pages that people speak of, also when there is only one."""

STYLE = """
:root { color-scheme: light dark; --ink: #1d2328; --soft: #5b6770; --line: #d5dbe0; --ground: #fff; --mark: #ffe58a;
  --link: #0b5cad }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaed; --soft: #9aa7b0; --line: #39434b; --ground: #14191d;
  --mark: #6b5500; --link: #7db8f2 } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1rem; max-width: 46rem; background: var(--ground); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif }
h1 { font-size: 1.1rem; margin: 0 0 .75rem }
form { display: flex; flex-wrap: wrap; gap: .5rem; margin-bottom: 1.25rem }
input, select, button { font: inherit; color: inherit; background: var(--ground); border: 1px solid var(--line);
  border-radius: .4rem; padding: .55rem .7rem; min-height: 2.75rem }
input { flex: 1 1 14rem; min-width: 0 }
select { max-width: 100% }
button { background: var(--link); border-color: var(--link); color: var(--ground); font-weight: 600 }
ol { list-style: none; margin: 0; padding: 0 }
li { padding: .8rem 0; border-top: 1px solid var(--line) }
h2 { font-size: 1rem; margin: 0; overflow-wrap: anywhere }
h2 small { font-weight: 400; color: var(--soft); font-size: .9rem }
p { margin: .2rem 0 0; overflow-wrap: anywhere }
mark { background: var(--mark); color: inherit; border-radius: .15rem; padding: 0 .1rem }
.said { color: var(--soft) }
"""


class Asked(Struct, frozen=True):
    """What stands in the form."""

    question: str = ""
    collection: str = ""


def page(asked: Asked, collections: Sequence[str], found: Sequence[Found] | None = None, *, sentence: str = "") -> str:
    """Gives the page. `sentence` is what went wrong; `found` is None when nothing was asked."""
    title = f"{asked.question} - holdfast" if asked.question else "holdfast"
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style>"
        f"<body><h1>Document search</h1>{_form(asked, collections)}"
        f"{_answer(collections, found, sentence)}</body></html>"
    )


def _form(asked: Asked, collections: Sequence[str]) -> str:
    options = "".join(
        f"<option{' selected' if name == asked.collection else ''}>{escape(name)}</option>" for name in collections
    )
    return (
        '<form action="/" method="get" role="search">'
        f'<input type="search" name="q" value="{escape(asked.question)}" aria-label="Question" '
        'placeholder="What do the documents say about …" maxlength="2000" required'
        f"{'' if asked.question else ' autofocus'}>"
        f'<select name="collection" aria-label="Collection">{options}</select><button>Search</button></form>'
    )


def _answer(collections: Sequence[str], found: Sequence[Found] | None, sentence: str) -> str:
    if sentence:
        return f'<p role="alert">{escape(sentence)}</p>'
    if not collections:
        return '<p class="said">There are no collections yet; <code>holdfast ingest FOLDER</code> makes one.</p>'
    if found is None:
        return ""
    if not found:
        return '<p class="said">Nothing was found.</p>'
    return f"<ol>{''.join(map(_one, found))}</ol>"


def _one(found: Found) -> str:
    where = f", page {found.page}" if found.kind in PAGED or found.page > 1 else ""
    title = f" <bdi>{escape(found.title)}</bdi>" if found.title and found.title not in found.key else ""
    about = f"<small>{where}{title}</small>" if where or title else ""
    return f"<li><h2><bdi>{escape(found.key)}</bdi>{about}</h2><p><bdi>{highlighted(found)}</bdi></p></li>"


def highlighted(found: Found) -> str:
    """Gives the snippet with the words that were asked for marked, and everything escaped."""
    parts = []
    at = 0
    for start, end in found.marks:
        parts += [escape(found.snippet[at:start]), f"<mark>{escape(found.snippet[start:end])}</mark>"]
        at = end
    return "".join([*parts, escape(found.snippet[at:])])
