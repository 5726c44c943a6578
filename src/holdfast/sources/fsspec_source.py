"""Sources that fsspec reads: one object, or all objects below a prefix, of S3 and of other stores."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from typing import Any, BinaryIO

from holdfast.core.errors import HoldfastError, Reject, Signal
from holdfast.sources.fetch import DEFAULT_LIMITS, Deadline, FetchLimits, too_large_error
from holdfast.sources.ignore_rules import IgnoreRules, compile_glob
from holdfast.sources.source import Source, SourceFile, SourceRefused, Unreachable, causes, clamp_mtime
from holdfast.sources.ssrf_guard import (
    BlockedConnection,
    PrivateAddress,
    open_checked_socket,
    resolve_public,
)

SLICE = 4 << 20
"""Bytes that are read at once."""
BUCKET_SCHEMES = frozenset({"gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "hf", "memory"})
"""Schemes whose URLs name a bucket of a known service and no host, so they cannot lead into a private network."""


def list_objects(
    source: Source, ignoring: IgnoreRules, *, depth: int | None = None, allow_private: bool = False
) -> Iterator[SourceFile]:
    """Yield an object, or all objects below a prefix: folder by folder, sorted by name. Keys are URLs."""
    wanted = compile_glob(source.pattern).fullmatch if source.pattern else None
    with _translate_errors(source.spec):
        system = _filesystem(source.root, allow_private=allow_private)
        root = system._strip_protocol(source.root)
        path = system._strip_protocol(source.spec)
        if system.isfile(path):  # also if its name looks like a glob
            yield _source_file(system, system.info(path))
            return
        if not system.isdir(root):
            raise SourceRefused(f"there is nothing at {source.spec}; check the URL")
        for folder, subfolders, files in system.walk(root, maxdepth=depth, detail=True, on_error="raise"):
            prefix = folder.removeprefix(root).strip("/")
            prefix = f"{prefix}/" if prefix else ""
            for name in [name for name in subfolders if ignoring.ignores(f"{prefix}{name}/", f"{name}/")]:
                del subfolders[name]  # walk enters only the folders that remain
            for name in sorted(files):
                key = prefix + name
                if name and not ignoring.ignores(key, name) and (wanted is None or wanted(key)):
                    yield _source_file(system, files[name])


def fetch_object(
    url: str, into: BinaryIO, *, allow_private: bool = False, limits: FetchLimits = DEFAULT_LIMITS
) -> None:
    """Fetch an object into a file."""
    deadline = Deadline(limits)
    try:
        with _translate_errors(url):
            system = _filesystem(url, allow_private=allow_private, limits=limits)
            with system.open(system._strip_protocol(url), "rb", block_size=SLICE) as content:
                if (content.size or 0) > limits.size:
                    raise too_large_error(url, limits)
                while piece := content.read(SLICE):
                    into.write(piece)
                    deadline.check(url)
                    if into.tell() > limits.size:
                        raise too_large_error(url, limits)
    except SourceRefused as error:
        raise Reject(str(error)) from error


@contextmanager
def _translate_errors(url: str) -> Iterator[None]:
    """Raise our own errors for those of the libraries behind fsspec."""
    try:
        yield
    except FileNotFoundError as error:
        raise SourceRefused(f"there is nothing at {url}; check the URL") from error
    except PermissionError as error:
        raise SourceRefused(f"{url} may not be read: {error}") from error
    except ImportError as error:
        raise SourceRefused(f"{url} needs a library that is not installed: {error}") from error
    except (HoldfastError, Signal, Unreachable):
        raise
    except Exception as error:  # each library has its own errors, and few of them are OSErrors
        blocked = next((cause for cause in causes(error) if isinstance(cause, BlockedConnection)), None)
        if blocked:
            raise PrivateAddress(f"{url} leads to a private network: {blocked}") from error
        raise Unreachable(f"{url} cannot be reached: {error}") from error


def _filesystem(url: str, *, allow_private: bool, limits: FetchLimits = DEFAULT_LIMITS) -> Any:
    import fsspec

    scheme = url.partition("://")[0].lower()
    if scheme in ("s3", "s3a"):
        return _s3(allow_private=allow_private, limits=limits)
    if scheme not in BUCKET_SCHEMES and not allow_private:
        raise PrivateAddress(
            f"what {scheme}: connects to cannot be checked, so it might be a private network; if you trust {url}, "
            "allow private networks (--allow-private)"
        )
    try:
        return fsspec.url_to_fs(url, skip_instance_cache=True, use_listings_cache=False)[0]
    except ValueError as error:
        raise SourceRefused(f"{url} cannot be reached: {error}") from error


def _s3(*, allow_private: bool, limits: FetchLimits) -> Any:
    """Return the S3 filesystem for the current environment. Cached: creating it takes longer than a small fetch."""
    environment = tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith("AWS_")))
    return _create_s3(allow_private, limits.silence.total_seconds(), environment, os.getpid())


@lru_cache(maxsize=4)
def _create_s3(
    allow_private: bool,  # noqa: FBT001
    silence: float,
    environment: tuple[tuple[str, str], ...],  # noqa: ARG001 - part of the key of the cache
    process: int,  # noqa: ARG001 - part of the key of the cache
) -> Any:
    """Create a filesystem that checks every connection: those to a configured endpoint, and those after redirects."""
    import fsspec

    config: dict[str, Any] = {"connect_timeout": silence, "read_timeout": silence, "retries": {"max_attempts": 3}}
    if not allow_private:
        config |= {"connector_args": {"socket_factory": open_checked_socket}, "proxies": {}}
    system = fsspec.filesystem("s3", skip_instance_cache=True, use_listings_cache=False, config_kwargs=config)
    if not allow_private:
        _refuse_private_endpoint(system)
    return system


def _refuse_private_endpoint(system: Any) -> None:
    """Raise PrivateAddress now. The check of each connection would raise it only after many tries."""
    from urllib.parse import urlsplit

    system.connect()
    endpoint = urlsplit(system.s3.meta.endpoint_url)
    resolve_public(endpoint.hostname or "", endpoint.port or 443)


def _source_file(system: Any, info: dict[str, Any]) -> SourceFile:
    url = system.unstrip_protocol(info["name"])
    modified = next(
        (info[name] for name in ("LastModified", "mtime", "modified", "last_modified", "updated") if name in info), None
    )
    etag = next((str(info[name]) for name in ("ETag", "etag", "md5Hash", "content_md5") if info.get(name)), "")
    return SourceFile(url, url, -1 if info.get("size") is None else int(info["size"]), _nanoseconds(modified), etag)


def _nanoseconds(time: Any) -> int:
    try:
        if isinstance(time, str):
            time = datetime.fromisoformat(time)
        if isinstance(time, datetime):
            return clamp_mtime(int(time.timestamp() * 1_000_000) * 1000)
        return clamp_mtime(int(time * 1_000_000_000)) if isinstance(time, (int, float)) else 0
    except (ValueError, OverflowError):  # not a time, or out of range
        return 0
