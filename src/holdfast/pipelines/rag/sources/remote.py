"""Whatever else fsspec reaches: objects of S3 and of other stores, one or all below a prefix."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from typing import Any, BinaryIO

from holdfast.core.errors import HoldfastError, Reject, Signal
from holdfast.pipelines.rag.sources.addresses import (
    ConnectionRefusedHere,
    PrivateAddress,
    checked_socket,
    public_addresses,
)
from holdfast.pipelines.rag.sources.ignoring import Ignoring, matcher
from holdfast.pipelines.rag.sources.limits import DEFAULT, Deadline, Limits, too_large
from holdfast.pipelines.rag.sources.source import Seen, Source, SourceRefused, Unreachable, kept_time

SLICE = 4 << 20
ELSEWHERE = frozenset({"gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "hf", "memory"})
"""Schemes whose URLs name a bucket of a known service, not a host: there is no address in them to abuse."""


def remote_listing(
    source: Source, ignoring: Ignoring, *, depth: int | None = None, allow_private: bool = False
) -> Iterator[Seen]:
    """Gives an object, or all objects below a prefix, folder by folder, by name. Keys are URLs."""
    wanted = matcher(source.pattern).fullmatch if source.pattern else None
    with _worded(source.word):
        system = _filesystem(source.root, allow_private=allow_private)
        root = system._strip_protocol(source.root)
        whole = system._strip_protocol(source.word)
        if system.isfile(whole):  # also when its name looks like a glob
            yield _seen(system, system.info(whole))
            return
        if not system.isdir(root):
            raise SourceRefused(f"there is nothing at {source.word}; check the URL")
        for folder, below, files in system.walk(root, maxdepth=depth, detail=True, on_error="raise"):
            prefix = folder.removeprefix(root).strip("/")
            prefix = f"{prefix}/" if prefix else ""
            for name in [name for name in below if ignoring.hides(f"{prefix}{name}/", f"{name}/")]:
                del below[name]  # walk goes only where is left
            for name in sorted(files):
                key = prefix + name
                if name and not ignoring.hides(key, name) and (wanted is None or wanted(key)):
                    yield _seen(system, files[name])


def fetch_object(url: str, into: BinaryIO, *, allow_private: bool = False, limits: Limits = DEFAULT) -> None:
    """Fetches an object in slices."""
    deadline = Deadline(limits)
    try:
        with _worded(url):
            system = _filesystem(url, allow_private=allow_private, limits=limits)
            with system.open(system._strip_protocol(url), "rb", block_size=SLICE) as found:
                if (found.size or 0) > limits.size:
                    raise too_large(url, limits)
                while piece := found.read(SLICE):
                    into.write(piece)
                    deadline.check(url)
                    if into.tell() > limits.size:
                        raise too_large(url, limits)
    except SourceRefused as error:
        raise Reject(str(error)) from error


@contextmanager
def _worded(url: str) -> Iterator[None]:
    """Says in our words what goes wrong in libraries of many makes."""
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
    except Exception as error:  # each library has errors of its own make, and few of them are OSErrors
        refused = next((one for one in _story(error) if isinstance(one, ConnectionRefusedHere)), None)
        if refused:
            raise PrivateAddress(f"{url} leads astray: {refused}") from error
        raise Unreachable(f"{url} cannot be reached: {error}") from error


def _story(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _filesystem(url: str, *, allow_private: bool, limits: Limits = DEFAULT) -> Any:
    import fsspec

    scheme = url.partition("://")[0].lower()
    if scheme in ("s3", "s3a"):
        return _s3(allow_private=allow_private, limits=limits)
    if scheme not in ELSEWHERE and not allow_private:
        raise PrivateAddress(
            f"what {scheme}: connects to cannot be checked, so it might be a private network; if you trust {url}, "
            "allow private networks (--allow-private)"
        )
    try:
        return fsspec.url_to_fs(url, skip_instance_cache=True, use_listings_cache=False)[0]
    except ValueError as error:
        raise SourceRefused(f"{url} cannot be reached: {error}") from error


def _s3(*, allow_private: bool, limits: Limits) -> Any:
    """Gives the filesystem for what the environment says now. Making one takes longer than fetching a small object."""
    environment = tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith("AWS_")))
    return _made_s3(allow_private, limits.silence.total_seconds(), environment, os.getpid())


@lru_cache(maxsize=4)
def _made_s3(
    allow_private: bool,  # noqa: FBT001
    silence: float,
    environment: tuple[tuple[str, str], ...],
    process: int,
) -> Any:
    """Makes a filesystem whose every connection is checked, wherever its endpoint was configured, and redirects too."""
    import fsspec

    config: dict[str, Any] = {"connect_timeout": silence, "read_timeout": silence, "retries": {"max_attempts": 3}}
    if not allow_private:
        config |= {"connector_args": {"socket_factory": checked_socket}, "proxies": {}}
    system = fsspec.filesystem("s3", skip_instance_cache=True, use_listings_cache=False, config_kwargs=config)
    if not allow_private:
        _refuse_private_endpoint(system)
    return system


def _refuse_private_endpoint(system: Any) -> None:
    """Says at once and clearly what the check of each connection would say after many tries."""
    from urllib.parse import urlsplit

    system.connect()
    endpoint = urlsplit(system.s3.meta.endpoint_url)
    public_addresses(endpoint.hostname or "", endpoint.port or 443)


def _seen(system: Any, info: dict[str, Any]) -> Seen:
    url = system.unstrip_protocol(info["name"])
    moment = next(
        (info[name] for name in ("LastModified", "mtime", "modified", "last_modified", "updated") if name in info), None
    )
    etag = next((str(info[name]) for name in ("ETag", "etag", "md5Hash", "content_md5") if info.get(name)), "")
    return Seen(url, url, -1 if info.get("size") is None else int(info["size"]), _nanoseconds(moment), etag)


def _nanoseconds(moment: Any) -> int:
    try:
        if isinstance(moment, str):
            moment = datetime.fromisoformat(moment)
        if isinstance(moment, datetime):
            return kept_time(int(moment.timestamp() * 1_000_000) * 1000)
        return kept_time(int(moment * 1_000_000_000)) if isinstance(moment, (int, float)) else 0
    except (ValueError, OverflowError):  # no time, or none that a clock shows
        return 0
