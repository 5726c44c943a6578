"""No form of a URL shows its password."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.passwords import hide_password

SECRET = "hunter2"
ODD = ["h%75nter2%40x", "hun@ter2", "hun/ter2", "hun ter2", "2hunter", "12345", "a:b", ":", "***"]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:{}@db/papers", "postgresql://me:***@db/papers"),
        ("postgresql://me:{}@db:5432/papers?sslmode=require", "postgresql://me:***@db:5432/papers?sslmode=require"),
        ("postgresql://:{}@db/papers", "postgresql://:***@db/papers"),
        ("mysql+x://me:{}@db", "mysql+x://me:***@db"),
        ("//me:{}@db", "//me:***@db"),
        ("postgresql://db/x?user=me&password={}", "postgresql://db/x?user=me&password=***"),
        ("postgresql://db/x?password={}&user=me", "postgresql://db/x?password=***&user=me"),
        ("postgresql://db/x?sslpassword={}", "postgresql://db/x?sslpassword=***"),
        ("https://host/x?api_key={}&a=1", "https://host/x?api_key=***&a=1"),
        ("https://host/x?X-Amz-Signature={}", "https://host/x?X-Amz-Signature=***"),
        ("host=db password={} dbname=x", "host=db password=*** dbname=x"),
        ("host=db password = 'a {}\\' b' dbname=x", "host=db password = *** dbname=x"),
        ("host=db password='{}", "host=db password=***"),
        ("host=db PASSWORD={}", "host=db PASSWORD=***"),
    ],
)
def test_a_password_is_hidden_wherever_it_is(url: str, shown: str) -> None:
    assert hide_password(url.format(SECRET)) == shown


@pytest.mark.parametrize("password", ODD)
def test_a_password_is_hidden_also_if_its_characters_are_not_escaped(password: str) -> None:
    assert hide_password(f"postgresql://me:{password}@db/papers") == "postgresql://me:***@db/papers"


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///papers.db",
        "sqlite:///me:x@y.db",
        "sqlite:////var/a@b.db?synchronous=full",
        "memory://",
        "postgresql://me@db:5432/papers",
        "http://localhost:8080/a@b.pdf",
        "http://[::1]:8080/a@b.pdf",
        "papers.py:letters",
    ],
)
def test_what_has_no_password_is_left_alone(url: str) -> None:
    assert hide_password(url) == url


@given(st.text(st.characters(exclude_characters="/?#@ \n\t", exclude_categories=["Cs"]), min_size=3))
def test_any_password_is_hidden(password: str) -> None:
    secret = f"x{password}x"
    assert secret not in hide_password(f"anything://me:{secret}@host/name")
