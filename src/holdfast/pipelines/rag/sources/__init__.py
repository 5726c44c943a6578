"""Where documents come from: folders, files, globs and URLs, looked through and fetched."""

from holdfast.pipelines.rag.sources.fetch import FileGone, hash_of, local_copy
from holdfast.pipelines.rag.sources.limits import Limits
from holdfast.pipelines.rag.sources.listing import listing, those_it_is_about
from holdfast.pipelines.rag.sources.source import (
    Missed,
    Seen,
    Source,
    SourceRefused,
    Unreachable,
    root_named,
    source_of,
)

__all__ = [
    "FileGone",
    "Limits",
    "Missed",
    "Seen",
    "Source",
    "SourceRefused",
    "Unreachable",
    "hash_of",
    "listing",
    "local_copy",
    "root_named",
    "source_of",
    "those_it_is_about",
]
