"""Files and URLs that documents come from: name them, list them, see whether they changed, and fetch them."""

from holdfast.sources.fetch import FetchLimits, FileGone, hash_file, local_copy
from holdfast.sources.listing import key_filter, list_files
from holdfast.sources.source import (
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
