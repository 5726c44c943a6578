"""Open a container of any format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.containers.entry import DEFAULT_LIMITS, Container, ContainerLimits

if TYPE_CHECKING:
    from holdfast.containers.detect import ContainerKind

MODULES: dict[ContainerKind, str] = {
    "mbox": "mbox",
    "zip": "zip_archive",
    "tar": "tar_archive",
    "gzip": "packed_file",
    "bzip2": "packed_file",
    "xz": "packed_file",
    "zstd": "packed_file",
    "7z": "seven_zip",
    "rar": "seven_zip",
    "pst": "outlook_store",
}


@contextmanager
def open_container(
    path: Path, kind: ContainerKind, limits: ContainerLimits = DEFAULT_LIMITS, *, name: str = ""
) -> Iterator[Container]:
    """Open a container.

    Args:
        path: Its file.
        kind: Its format, as `detect_container` returns it.
        limits: The limits of its entries.
        name: The name of the file, if the path is temporary. A packed file is named after it.

    Yields:
        The container.

    Raises:
        Reject: It is broken, beyond the limits, or a package that it needs is not installed.
    """
    module: Any = import_module(f"holdfast.containers.{MODULES[kind]}")
    with module.open_file(path, limits, name or path.name) as container:
        yield container
