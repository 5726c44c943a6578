"""The public names of document search, and those of earlier versions that still work."""

from __future__ import annotations

import pytest

from holdfast.pipelines import rag


@pytest.mark.parametrize("name", rag.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(rag, name) is not None


@pytest.mark.parametrize(
    ("old", "new"), [("Looking", "ScanOptions"), ("Settings", "CollectionSettings"), ("tidy", "collect_garbage")]
)
def test_an_old_name_still_works_and_names_the_new_one(old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"now called {new}"):
        assert getattr(rag, old) is getattr(rag, new)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="Shelves"):
        rag.Shelves  # type: ignore[attr-defined]  # noqa: B018
