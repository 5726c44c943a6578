"""The public names of the crash test."""

from __future__ import annotations

import pytest

from holdfast.testing import crash


@pytest.mark.parametrize(("old", "new"), [("Progress", "CrashTestProgress"), ("Finding", "DifferingRun")])
def test_an_old_name_still_works_and_names_the_new_one(old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=new):
        assert getattr(crash, old) is getattr(crash, new)
