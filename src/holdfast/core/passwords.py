"""Hide passwords: no message, log line or report shows the password of a URL.

A person may type the URL of a store wrongly, and a wrong URL is printed most often. So also what only looks like a
password is hidden: in a URL with an unknown scheme, in its query, and in the key and value form of PostgreSQL.
"""

from __future__ import annotations

import re

HIDDEN = "***"

_IN_URL = re.compile(r"((?<!/)//[^:/@\[\s]*:)(?!\d{1,5}(?:[/?#]|$)).*@", re.DOTALL)
"""After the user, up to the last @: a person may forget to escape @ and / in a password. A port is no password."""
_SECRET_NAME = r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|credential|sig(?:nature)?|(?:api|access|account)[_-]?key)"  # noqa: S105
_IN_QUERY = re.compile(rf"([?&;][\w.-]*{_SECRET_NAME}=)[^&;#\s]+", re.IGNORECASE)
_AS_VALUE = re.compile(rf"(\b\w*{_SECRET_NAME}\s*=\s*)(?:'(?:\\.|[^'\\])*'?|[^\s'&;#]+)", re.IGNORECASE)


def hide_password(text: str) -> str:
    """Return a URL, or a text with one URL, with *** in the place of its passwords.

    Args:
        text: A URL of any scheme, or the key and value form of PostgreSQL, such as `host=db password=...`.

    Returns:
        The text without passwords.

    Example:
        hide_password("postgresql://me:secret@db/papers")  # postgresql://me:***@db/papers
    """
    text = _IN_URL.sub(rf"\g<1>{HIDDEN}@", text)
    text = _IN_QUERY.sub(rf"\g<1>{HIDDEN}", text)
    return _AS_VALUE.sub(rf"\g<1>{HIDDEN}", text)
