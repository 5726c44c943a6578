"""Tests of holdfast.core.error_categories."""

from __future__ import annotations

import asyncio
import errno
import http.client
import socket
import sqlite3
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import aiohttp
import botocore.exceptions
import httpx
import httpx2
import psycopg
import pytest
import requests

import holdfast
from holdfast.core.error_categories import error_category
from holdfast.core.errors import BodyCrashed, CannotKeep, StepTimeout, StoreGone, TooManyFailures


class Answers(BaseHTTPRequestHandler):
    """Answers every request with the status in its path."""

    def do_GET(self) -> None:
        if self.path == "/hang-up":
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(int(self.path.strip("/")))
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Write nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A real server whose answer has the status in the path."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


@pytest.fixture(scope="module")
def nobody() -> str:
    """An address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def with_urllib(url: str) -> None:
    with urllib.request.urlopen(url, timeout=5):
        pass


def with_requests(url: str) -> None:
    with requests.Session() as session, session.get(url, timeout=5) as response:
        response.raise_for_status()


def with_httpx(url: str) -> None:
    httpx.get(url, timeout=5).raise_for_status()


def with_httpx2(url: str) -> None:
    httpx2.get(url, timeout=5).raise_for_status()


def with_aiohttp(url: str) -> None:
    async def call() -> None:
        async with aiohttp.ClientSession(raise_for_status=True) as session, session.get(url):
            pass

    asyncio.run(call())


LIBRARIES = [with_urllib, with_requests, with_httpx, with_httpx2, with_aiohttp]


def raised(call: Callable[[], object]) -> BaseException:
    """Return the error that a call raises."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - any error: its category is what is tested
        call()
    if isinstance(caught.value, urllib.error.HTTPError):
        caught.value.close()
    return caught.value


@pytest.mark.parametrize("get", LIBRARIES)
@pytest.mark.parametrize(
    ("status", "category", "recoverable"),
    [
        (401, "authentication", False),
        (403, "permission", False),
        (429, "rate_limit", True),
        (500, "server_error", True),
        (503, "unreachable", True),
        (404, None, None),
    ],
)
def test_an_http_status_has_a_category_in_every_library(
    server: str, get: Callable[[str], None], status: int, category: str | None, recoverable: bool | None
) -> None:
    error = raised(lambda: get(f"{server}/{status}"))
    assert (error_category(error), holdfast.is_recoverable(error)) == (category, recoverable)


@pytest.mark.parametrize("get", LIBRARIES)
def test_a_server_that_is_away_is_unreachable_in_every_library(nobody: str, get: Callable[[str], None]) -> None:
    error = raised(lambda: get(nobody))
    assert (error_category(error), holdfast.is_recoverable(error)) == ("unreachable", True)


@pytest.mark.parametrize("get", LIBRARIES)
def test_a_server_that_hangs_up_is_unreachable_in_every_library(server: str, get: Callable[[str], None]) -> None:
    assert error_category(raised(lambda: get(f"{server}/hang-up"))) == "unreachable"


@pytest.mark.parametrize("get", [with_urllib, with_requests, with_httpx, with_httpx2, with_aiohttp])
def test_a_name_that_does_not_resolve_is_unreachable(get: Callable[[str], None]) -> None:
    assert error_category(raised(lambda: get("http://does-not-exist.invalid/"))) == "unreachable"


@pytest.mark.parametrize("code", [errno.ECONNRESET, errno.EHOSTUNREACH, errno.ENETDOWN])
def test_an_errno_of_the_network_is_unreachable(code: int) -> None:
    assert error_category(OSError(code, "gone")) == "unreachable"


def test_builtin_errors() -> None:
    assert error_category(TimeoutError()) == "timeout"
    assert error_category(BrokenPipeError()) == "unreachable"
    assert error_category(http.client.IncompleteRead(b"")) == "unreachable"
    assert error_category(http.client.RemoteDisconnected()) == "unreachable"
    assert error_category(ModuleNotFoundError("no numpy")) == "configuration"
    for unknown in (ValueError("x"), KeyError("x"), PermissionError(errno.EACCES, "no"), OSError("x"), MemoryError()):
        assert (error_category(unknown), holdfast.is_recoverable(unknown)) == (None, None)


def test_a_bad_certificate_is_a_matter_of_configuration() -> None:
    bad = ssl.SSLCertVerificationError(1, "self-signed certificate")
    assert error_category(bad) == "configuration"
    assert error_category(urllib.error.URLError(bad)) == "configuration"
    wrapped = requests.exceptions.SSLError(bad)
    assert error_category(wrapped) == "configuration"
    assert error_category(ssl.SSLEOFError(8, "EOF occurred")) == "unreachable"


def test_constraints_and_locks_of_sqlite() -> None:
    db = sqlite3.connect(":memory:")
    db.execute("create table t (id integer primary key, n integer check (n > 0))")
    assert error_category(raised(lambda: db.execute("insert into t values (1, 0)"))) == "constraint"
    assert error_category(raised(lambda: db.execute("insert into missing values (1)"))) is None


def test_a_locked_sqlite_file_is_a_conflict(tmp_path: Any) -> None:
    first = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    first.execute("begin exclusive")
    second = sqlite3.connect(tmp_path / "a.db", timeout=0)
    error = raised(lambda: second.execute("create table t (a)"))
    assert (error_category(error), holdfast.is_recoverable(error)) == ("conflict", True)


@pytest.mark.parametrize(
    ("kind", "category"),
    [
        (psycopg.errors.UniqueViolation, "constraint"),
        (psycopg.errors.DeadlockDetected, "conflict"),
        (psycopg.errors.SerializationFailure, "conflict"),
        (psycopg.errors.LockNotAvailable, "conflict"),
        (psycopg.errors.AdminShutdown, "unreachable"),
        (psycopg.errors.InvalidPassword, "authentication"),
        (psycopg.errors.InsufficientPrivilege, "permission"),
        (psycopg.errors.QueryCanceled, "timeout"),
        (psycopg.errors.ConnectionTimeout, "timeout"),
        (psycopg.OperationalError, "unreachable"),
        (psycopg.errors.UndefinedTable, None),
        (psycopg.errors.ConfigFileError, None),
    ],
)
def test_errors_of_psycopg(kind: type[Exception], category: str | None) -> None:
    assert error_category(kind("what the server said")) == category


@pytest.mark.parametrize(
    ("code", "category"),
    [
        ("ThrottlingException", "rate_limit"),
        ("ExpiredToken", "authentication"),
        ("AccessDenied", "permission"),
        ("InternalError", "server_error"),
        ("NoSuchKey", None),
    ],
)
def test_codes_of_aws(code: str, category: str | None) -> None:
    response: Any = {"Error": {"Code": code, "Message": ""}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    assert error_category(botocore.exceptions.ClientError(response, "GetObject")) == category


def test_other_errors_of_aws() -> None:
    assert error_category(botocore.exceptions.NoCredentialsError()) == "authentication"
    assert error_category(botocore.exceptions.EndpointConnectionError(endpoint_url="x")) == "unreachable"
    assert error_category(botocore.exceptions.ReadTimeoutError(endpoint_url="x")) == "timeout"
    unknown: Any = {"Error": {"Code": "X"}, "ResponseMetadata": {"HTTPStatusCode": 503}}
    assert error_category(botocore.exceptions.ClientError(unknown, "Get")) == "unreachable"


def library_error(name: str, *bases: str, **attributes: Any) -> Exception:
    """Return an error with the class names, base classes and attributes of a library that is not installed here."""
    base: type[Exception] = Exception
    for full in (*reversed(bases), name):
        module, _, cls = full.rpartition(".")
        base = type(cls, (base,), {"__module__": module})
    error = base("what it says")
    for attribute, value in attributes.items():
        setattr(error, attribute, value)
    return error


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (library_error("openai.AuthenticationError", "openai.APIStatusError", status_code=401), "authentication"),
        (library_error("openai.RateLimitError", status_code=429, code="insufficient_quota"), "permission"),
        (library_error("openai.RateLimitError", status_code=429, code=None), "rate_limit"),
        (library_error("openai.APITimeoutError", "openai.APIConnectionError"), "timeout"),
        (library_error("openai.APIConnectionError", "openai.APIError"), "unreachable"),
        (library_error("anthropic._exceptions.OverloadedError", status_code=529), "unreachable"),
        (library_error("anthropic._exceptions.PermissionDeniedError", status_code=403), "permission"),
        (library_error("redis.exceptions.ConnectionError", "redis.exceptions.RedisError"), "unreachable"),
        (library_error("redis.exceptions.AuthenticationError", "redis.exceptions.ConnectionError"), "authentication"),
        (library_error("redis.exceptions.TimeoutError", "redis.exceptions.RedisError"), "timeout"),
        (library_error("elasticsearch.AuthenticationException", status_code=401), "authentication"),
        (library_error("elastic_transport.ConnectionError", "elastic_transport.TransportError"), "unreachable"),
        (library_error("opensearchpy.exceptions.ConnectionTimeout", status_code="TIMEOUT"), "timeout"),
        (library_error("opensearchpy.exceptions.ConnectionError", status_code="N/A"), "unreachable"),
        (library_error("opensearchpy.exceptions.TransportError", status_code=429), "rate_limit"),
        (library_error("sqlalchemy.exc.IntegrityError", "sqlalchemy.exc.DBAPIError"), "constraint"),
        (
            library_error("sqlalchemy.exc.OperationalError", orig=psycopg.errors.DeadlockDetected()),
            "conflict",
        ),
        (library_error("sqlalchemy.exc.OperationalError", orig=sqlite3.OperationalError("no such table")), None),
        (library_error("google.api_core.exceptions.ServiceUnavailable", code=503), "unreachable"),
        (library_error("azure.core.exceptions.ServiceRequestError"), "unreachable"),
        (library_error("somebody.else.ConnectionError"), None),
    ],
)
def test_errors_of_libraries_that_are_not_installed(error: Exception, category: str | None) -> None:
    assert error_category(error) == category


def with_cause(error: Exception, cause: BaseException) -> Exception:
    """Return an error as `raise error from cause` raises it."""
    error.__cause__ = cause
    return error


def test_an_error_has_the_category_of_its_cause() -> None:
    assert error_category(with_cause(RuntimeError("the embedder failed"), ConnectionResetError())) == "unreachable"
    group = ExceptionGroup("two", [ConnectionResetError(), ConnectionRefusedError()])
    assert error_category(group) == "unreachable"
    assert error_category(ExceptionGroup("two", [ConnectionResetError(), ValueError()])) is None


def test_the_context_of_an_error_says_nothing() -> None:
    error = ValueError("not a number")
    error.__context__ = ConnectionResetError()
    assert error_category(error) is None


def test_an_error_class_of_the_user_can_name_its_category() -> None:
    class Away(Exception):
        error_category = "unreachable"

    class Misspelt(Exception):
        error_category = "away"

    assert error_category(Away()) == "unreachable"
    assert error_category(Misspelt()) is None


def test_errors_of_holdfast() -> None:
    assert error_category(holdfast.Reject("no")) == "rejected"
    assert error_category(CannotKeep("no")) == "invalid"
    assert error_category(StepTimeout("slow")) == "step_timeout"
    assert error_category(StoreGone("gone")) == "unreachable"
    assert error_category(holdfast.DefinitionError("wrong")) == "configuration"
    assert error_category(BodyCrashed("dead")) is None
    assert holdfast.is_recoverable(holdfast.RetryLater("busy")) is True
    too_many = TooManyFailures("3 of 4")
    assert error_category(too_many) is None
    assert error_category(with_cause(too_many, ConnectionResetError())) == "unreachable"


def test_an_error_whose_attributes_raise_is_unknown() -> None:
    class Hostile(Exception):
        @property
        def status_code(self) -> int:
            raise SystemExit(1)

    assert error_category(Hostile()) is None


def test_an_error_that_causes_itself_is_unknown() -> None:
    error = RuntimeError("x")
    error.__cause__ = error
    assert error_category(error) is None


def test_an_http_error_of_urllib_is_recognised_by_its_code() -> None:
    assert error_category(urllib.error.HTTPError("http://x", 401, "no", Message(), None)) == "authentication"
