"""Keys of files and URLs: one key for each file, however it is named and wherever the command runs."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator
from pathlib import PurePath
from urllib.parse import SplitResult, parse_qsl, quote, urlsplit, urlunsplit

from holdfast.sources.source import SCHEME, SourceRefused, is_url, path_of_file_url, refuse_secrets

DEFAULT_PORTS = {"http": 80, "https": 443, "ftp": 21, "sftp": 22, "ssh": 22}
"""Also the schemes whose URLs name a host, which may be written in any case. A bucket may not."""
ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_ESCAPE = re.compile(r"%([0-9a-fA-F]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_SIGNED_BY = re.compile(r"x-(?:amz|goog)-", re.IGNORECASE)
_SECRETS = frozenset(("access_token", "api_key", "apikey", "api-key"))
_S3_SIGNATURE = frozenset(("AWSAccessKeyId", "Signature", "Expires"))
_AZURE_SIGNATURE = frozenset(
    ("sv", "ss", "srt", "sr", "sp", "spr", "st", "se", "sip", "si", "sig", "skoid", "sktid", "skt", "ske", "sks", "skv")
)


def canonical_key(location: str | os.PathLike[str]) -> str:
    """Return the key of a file: its canonical path, or its canonical URL.

    Args:
        location: A path, a `file:` URL or another URL.

    Raises:
        SourceRefused: The URL has a password, or it cannot be used.
    """
    text = os.fspath(location)
    if isinstance(location, str) and is_url(text):
        return canonical_path(path_of_file_url(text)) if text.lower().startswith("file:") else canonical_url(text)
    return canonical_path(text)


def canonical_path(path: str) -> str:
    """Return the absolute path of a file, without `~`, `..` and links to folders, with forward slashes.

    The last name stays if it is a link to a file: links are names of their own, and programs look at the suffix.
    """
    if path.startswith("~") and not os.path.lexists(path):
        path = os.path.expanduser(path)  # noqa: PTH111
    if os.path.isdir(path):  # noqa: PTH112
        return PurePath(_as_listed(os.path.realpath(path))).as_posix()
    folder, name = os.path.split(os.path.abspath(path))  # noqa: PTH100
    return PurePath(_as_listed(os.path.join(os.path.realpath(folder), name))).as_posix()  # noqa: PTH118


def canonical_url(url: str) -> str:
    """Return a URL as all ways of writing it have in common, without credentials.

    - Scheme and host are in lower case, and without the default port.
    - Of http and https, the path has no dot segments and is escaped in one way.
    - The fragment is left out, and so is the signature of a signed URL.
    """
    parts = _split(url)
    scheme = ALIASES.get(parts.scheme, parts.scheme)
    refuse_secrets(parts)
    if scheme in ("http", "https"):
        path = _escaped("/".join(_without_dots(parts.path)) or "/", safe="/:@!$&'()*+,;=%~")
        query = _escaped(_unsigned(parts.query), safe="/:@!$&'()*+,;=%~?[]|")
        return urlunsplit((scheme, _host(parts), path, query, ""))
    bucket, slash, rest = url.partition("://")[2].partition("/")  # names of objects are literal: ?, # and .. too
    return f"{scheme}://{_host(parts) if scheme in DEFAULT_PORTS else bucket}{slash}{rest}"


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise SourceRefused("a URL cannot be read; check its host and port") from None  # it may have a password
    if not SCHEME.match(url) or "://" not in url:
        raise SourceRefused(f"{url} is not a URL")
    return parts


def _host(parts: SplitResult) -> str:
    """Return the host as it is connected to: without the default port, and with the user if there is one."""
    host = unicodedata.normalize("NFC", parts.hostname or "").removesuffix(".")
    host = f"[{host}]" if ":" in host else host
    port = f":{parts.port}" if parts.port not in (None, DEFAULT_PORTS.get(parts.scheme)) else ""
    user = f"{parts.username}@" if parts.username else ""
    return f"{user}{host}{port}"


def _without_dots(path: str) -> Iterator[str]:
    """Yield the segments of a path without `.` and `..`."""
    segments: list[str] = []
    parts = _ESCAPE.sub(_unescaped, path).split("/")
    for part in parts:
        if part == "..":
            del segments[max(len(segments) - 1, 1) :]  # the first is empty: a path begins with a slash
        elif part != ".":
            segments.append(part)
    if parts[-1] in (".", ".."):
        segments.append("")
    yield from segments


def _escaped(text: str, *, safe: str) -> str:
    return quote(_ESCAPE.sub(_unescaped, text), safe=safe)


def _unescaped(found: re.Match[str]) -> str:
    """Return a character that needs no escape, or its escape in upper case."""
    char = chr(int(found[1], 16))
    return char if char in _UNRESERVED else f"%{found[1].upper()}"


def _unsigned(query: str) -> str:
    """Return a query without its signature, which is different each time a URL is signed."""
    names = {name for name, _ in parse_qsl(query, keep_blank_values=True)}
    signature = set(_SECRETS)
    if names >= _S3_SIGNATURE:
        signature |= _S3_SIGNATURE
    if {"sig", "sv"} <= names:
        signature |= _AZURE_SIGNATURE
    fields = [field for field in query.split("&") if not _is_signature(field.partition("=")[0], signature)]
    return "&".join(fields)


def _is_signature(name: str, signature: set[str]) -> bool:
    return name in signature or _SIGNED_BY.match(name) is not None


def _as_listed(path: str) -> str:
    """Return a path as its folders list it, where a file system takes other spellings for the same file.

    Some ignore the case, and some the way in which accents are composed. On others, such names are other files.
    """
    known = PurePath(path)
    listed = known.anchor
    for name in known.parts[1:]:
        listed = os.path.join(listed, _name_as_listed(listed, name))  # noqa: PTH118
    return listed


def _name_as_listed(folder: str, name: str) -> str:
    others = {name.swapcase(), unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name)} - {name}
    if not any(os.path.lexists(os.path.join(folder, other)) for other in others):  # noqa: PTH118
        return name
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except OSError:
        return name
    if name in names:
        return name
    return next((other for other in sorted(names) if _folded(other) == _folded(name)), name)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
