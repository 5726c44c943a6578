"""Sources of documents: list and fetch the files of folders, globs and URLs."""

from holdfast.pipelines.rag.sources.fetch import FetchLimits, FileGone, hash_file, local_copy
from holdfast.pipelines.rag.sources.listing import key_filter, list_files
from holdfast.pipelines.rag.sources.source import (
    SkippedPath,
    Source,
    SourceFile,
    SourceRefused,
    Unreachable,
    find_root,
    parse_source,
)

__all__ = [
    "FetchLimits",
    "FileGone",
    "SkippedPath",
    "Source",
    "SourceFile",
    "SourceRefused",
    "Unreachable",
    "find_root",
    "hash_file",
    "key_filter",
    "list_files",
    "local_copy",
    "parse_source",
]
