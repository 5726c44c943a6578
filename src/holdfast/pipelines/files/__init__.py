"""Record files: load the records of CSV, JSON Lines and Parquet files into tables, each exactly once."""

from __future__ import annotations

from holdfast.pipelines.files.checkpoint_manager import CheckpointManager, ProcessingStats
from holdfast.pipelines.files.loader import DryRun, FileLoad, Loader, file_loads, set_aside
from holdfast.pipelines.files.pipeline import Ceiling
from holdfast.pipelines.files.transform import Transform, load_transform
from holdfast.pipelines.files.values import Column, FileChanged, FileOptions, FileRefused, FilesError, SetAside

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
