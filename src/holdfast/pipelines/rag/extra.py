"""What document search needs besides holdfast itself."""

from __future__ import annotations

from importlib.util import find_spec

from holdfast.core.errors import HoldfastError

NEEDED = ("fsspec", "httpx2", "numpy", "pypdfium2", "selectolax")
"""Without these hardly a file is read. What only some need, they ask for themselves: models, pictures, messages."""


class MissingExtra(HoldfastError):
    """Something that was not installed is needed. Told at once, before every document fails for it."""


def require_extra() -> None:
    """Raises MissingExtra if document search was not installed."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise MissingExtra(
            f"document search needs {' and '.join(missing)}, and that is not installed: pip install 'holdfast[rag]'"
        )
