"""Old names of public things."""

from __future__ import annotations

import pytest

from holdfast.core.old_names import new_name


def test_an_old_name_gives_the_new_one_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="m.Desk is now called Harness"):
        assert new_name("m", "Desk", {"Desk": "Harness"}) == "Harness"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'm' has no attribute 'Table'"):
        new_name("m", "Table", {"Desk": "Harness"})
