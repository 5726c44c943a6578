"""Files and URLs that documents come from: name them, list them, see whether they changed, and fetch them."""

from holdfast.sources.fetch import FetchLimits, FileGone, hash_file, local_copy
from holdfast.sources.fingerprint import fingerprint_of, is_hashed, stat_file
from holdfast.sources.identity import canonical_key, canonical_path, canonical_url
from holdfast.sources.listing import key_filter, list_files
from holdfast.sources.source import (
    SkippedPath,
    Source,
    SourceFile,
    SourceRefused,
    Unreachable,
    find_root,
    is_url,
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
    "canonical_key",
    "canonical_path",
    "canonical_url",
    "find_root",
    "fingerprint_of",
    "hash_file",
    "is_hashed",
    "is_url",
    "key_filter",
    "list_files",
    "local_copy",
    "parse_source",
    "stat_file",
]
