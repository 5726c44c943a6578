"""The short path of `holdfast.pipelines.files`: load record files into tables."""

from holdfast.pipelines.files import (
    Ceiling,
    CheckpointManager,
    Column,
    DryRun,
    FileChanged,
    FileLoad,
    FileOptions,
    FileRefused,
    FilesError,
    Loader,
    ProcessingStats,
    SetAside,
    Transform,
    file_loads,
    load_transform,
    set_aside,
)

__all__ = [
    "Ceiling",
    "CheckpointManager",
    "Column",
    "DryRun",
    "FileChanged",
    "FileLoad",
    "FileOptions",
    "FileRefused",
    "FilesError",
    "Loader",
    "ProcessingStats",
    "SetAside",
    "Transform",
    "file_loads",
    "load_transform",
    "set_aside",
]
