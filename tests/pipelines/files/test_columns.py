from __future__ import annotations

from typing import Any

import pytest

from holdfast.pipelines.files.columns import convert_column, infer_columns, number_or_text, unique_names
from holdfast.pipelines.files.values import FilesError, Kind


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "-20", ""], "integer"),
        (["1", "2.5"], "real"),
        (["007", "8"], "text"),
        (["9223372036854775808"], "text"),
        (["true", "False"], "boolean"),
        (["2026-01-31"], "date"),
        (["2026-01-31", "2026-01-31T10:00:00"], "timestamp"),
        (["2026-01-31T10:00:00Z", "2026-01-31 10:00:00+02:00"], "timestamptz"),
        (["2026-01-31T10:00:00Z", "2026-01-31T10:00:00"], "text"),
        (["2026-13-31"], "text"),
        ([""], "text"),
    ],
)
def test_a_type_is_inferred_that_all_values_have(values: list[str], kind: Kind) -> None:
    (column,) = infer_columns(["x"], [[value] for value in values], kind_of_text=number_or_text)
    assert column.kind == kind


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        ("integer", "1_0"),
        ("integer", "9223372036854775808"),
        ("integer", "٣"),
        ("real", "nan"),
        ("real", "1e999"),
        ("boolean", "maybe"),
        ("date", "20260131"),
        ("date", "2026-02-30"),
        ("timestamp", "2026-01-31T10:00:00Z"),
        ("timestamp", "20260131T100000"),
        ("timestamptz", "2026-01-31T10:00:00"),
        ("json", "{"),
    ],
)
def test_a_text_of_another_type_is_refused(kind: Kind, bad: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        convert_column(kind, [bad])


@pytest.mark.parametrize(
    ("kind", "values", "converted"),
    [
        ("integer", ["1", "", "-2"], [1, None, -2]),
        ("real", ["0.1", ""], [0.1, None]),
        ("boolean", ["TRUE", "0"], [True, False]),
        ("date", ["2026-01-31", ""], ["2026-01-31", None]),
        ("text", ["", "a"], ["", "a"]),
    ],
)
def test_a_column_is_converted_at_once(kind: Kind, values: list[str], converted: list[Any]) -> None:
    assert list(convert_column(kind, values)) == converted


def test_a_type_for_an_unknown_column_is_refused() -> None:
    with pytest.raises(FilesError, match="there is no column y"):
        infer_columns(["x"], [], {"y": "text"})


def test_names_of_columns_are_unique() -> None:
    assert unique_names(["a", " a ", "", "A"]) == ["a", "a_2", "column_3", "A_3"]
