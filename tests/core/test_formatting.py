"""Values as people read them."""

from __future__ import annotations

import pytest

from holdfast.core.formatting import format_money


@pytest.mark.parametrize(
    ("amount", "shown"),
    [(0, "0.00"), (0.0026, "0.0026"), (0.00001, "0.000010"), (0.01, "0.01"), (0.0149, "0.01"), (1234.5, "1,234.50")],
)
def test_money_below_a_cent_is_not_shown_as_nothing(amount: float, shown: str) -> None:
    assert format_money(amount) == shown
