"""The public names of the conformance suite."""

from __future__ import annotations

import pytest

from holdfast.testing import conformance


@pytest.mark.parametrize("old", sorted(conformance._OLD_NAMES))
def test_an_old_name_still_works_and_names_the_new_one(old: str) -> None:
    new = conformance._OLD_NAMES[old]
    with pytest.warns(DeprecationWarning, match=f"is now called {new}"):
        assert getattr(conformance, old) is getattr(conformance, new)


def test_a_name_that_never_existed_is_refused() -> None:
    with pytest.raises(AttributeError, match="NothingConformance"):
        conformance.NothingConformance  # type: ignore[attr-defined]  # noqa: B018
