"""The part of S3 that readers need: ListObjectsV2 with delimiter and pages, HeadObject, GetObject with ranges."""

from __future__ import annotations

from hashlib import md5
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.support.services.web_server import Handler

BUCKET = "papers"
OBJECTS: dict[str, bytes] = {
    "a.pdf": b"a" * 10,
    "2024/b.pdf": b"b" * 20,
    "2024/c d.txt": b"c" * 30,
    "2024/deep/e.pdf": bytes(range(256)) * 40_000,
    "2024/list[1].csv": b"d",
    "2024/.hidden": b"x",
    "node_modules/x.pdf": b"x",
}
WHEN = "2024-05-06T07:08:09.000Z"
WHEN_HTTP = "Mon, 06 May 2024 07:08:09 GMT"
PAGE = 2


class S3(Handler):
    """One bucket, addressed by path."""

    def do_GET(self) -> None:  # noqa: N802
        self.close_connection = True
        self.server.requests.append(f"{self.command} {self.path} {self.headers.get('Range', '')}".strip())
        parts = urlsplit(self.path)
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        if bucket == "elsewhere":
            self.answer(307, Location=f"http://127.0.0.2:{self.server.server_port}/{BUCKET}/{key}")
        elif bucket != BUCKET:
            self.error(404, "NoSuchBucket")
        elif key:
            self.object(key)
        else:
            self.list(parse_qs(parts.query))

    do_HEAD = do_GET  # noqa: N815

    def error(self, status: int, code: str) -> None:
        self.answer(status, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode())

    def object(self, key: str) -> None:
        content = OBJECTS.get(key)
        if content is None:
            return self.error(404, "NoSuchKey")
        signs = {"ETag": tag(content), "Last_Modified": WHEN_HTTP, "Accept_Ranges": "bytes"}
        wanted = self.headers.get("Range", "").removeprefix("bytes=")
        if self.command == "HEAD":
            self.answer(200, **signs, Content_Length=str(len(content)))
        elif wanted:
            first, _, last = wanted.partition("-")
            end = min(int(last or len(content) - 1), len(content) - 1)
            place = f"bytes {first}-{end}/{len(content)}"
            self.answer(206, content[int(first) : end + 1], **signs, Content_Range=place)
        else:
            self.answer(200, content, **signs)
        return None

    def list(self, query: dict[str, list[str]]) -> None:
        (prefix,), (delimiter,) = query.get("prefix", [""]), query.get("delimiter", [""])
        (after,) = query.get("continuation-token", [""])
        entries = sorted({_entry(key, prefix, delimiter) for key in OBJECTS if key.startswith(prefix)})
        left = [entry for entry in entries if entry > after]
        page = left[: min(PAGE, int(query.get("max-keys", ["1000"])[0]))]
        more = len(left) > len(page)
        body = "".join(_listed(entry) for entry in page)
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        xml = (
            '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>{BUCKET}</Name><KeyCount>{len(page)}</KeyCount><IsTruncated>{str(more).lower()}</IsTruncated>"
            f"{token}{body}</ListBucketResult>"
        )
        self.answer(200, xml.encode(), Content_Type="application/xml")


def tag(content: bytes) -> str:
    return f'"{md5(content).hexdigest()}"'


def _entry(key: str, prefix: str, delimiter: str) -> str:
    head, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
    return prefix + head + found if found else key


def _listed(entry: str) -> str:
    if entry not in OBJECTS:
        return f"<CommonPrefixes><Prefix>{escape(entry)}</Prefix></CommonPrefixes>"
    content = OBJECTS[entry]
    return (
        f"<Contents><Key>{escape(entry)}</Key><LastModified>{WHEN}</LastModified>"
        f"<ETag>{escape(tag(content))}</ETag><Size>{len(content)}</Size></Contents>"
    )
