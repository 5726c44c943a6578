"""Search for secrets: keys of known forms, and values that look like secrets, in tracked files and in all commits.

detect-secrets took half a minute for the files alone, most of it for the hashes of lock files, and it does not read
the history. Findings that are not secrets are listed in `known`, by hash, with a reason.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

NAMED = (
    r"(?i:passw(?:or)?d|passphrase|pwd|_pass|secret|token|credential|(?:api|access|account|private|signing)[_-]?key)"
    r"[\w-]*[\"']?\s*(?:=>|[:=])\s*"
)
"""A value that is assigned to such a name is a secret, if it looks like one."""
PLAIN = r"[\"'](?P<plain>[A-Za-z0-9+/_.=-]{16,})[\"']"
ODD = r"[\"'](?P<odd>(?=[^\"'\s]*[0-9])(?=[^\"'\s]*[A-Za-z])[^\s\"'{}<>()$\\]{8,})[\"']"
SIGN = r"[A-Za-z0-9+/_=@!%^&*~-]"
BARE = (
    rf"(?P<bare>(?={SIGN}*[0-9])"
    rf"(?:(?={SIGN}*[a-z])(?={SIGN}*[A-Z])|(?={SIGN}*[A-Za-z])(?={SIGN}*[@!%^&*~])|(?=[0-9a-f-]{{20}}))"
    rf"{SIGN}{{12,}})(?=[\s;,#\"'`]|$)"
)
"""A value without quotes must look less like code: digits with letters of both cases or special characters, or hex."""

FORMS = {
    "a private key": r"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY(?: BLOCK)?-----",
    "a key of AWS": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "a token of GitHub": r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{50,})\b",
    "a token of GitLab": r"\bglpat-[A-Za-z0-9_-]{20,}\b",
    "a key of OpenAI or Anthropic": r"\bsk-(?:proj-|ant-)?[A-Za-z0-9_-]{32,}\b",
    "a key of Stripe": r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}",
    "a token of Slack": r"\bxox[abposr]-[A-Za-z0-9-]{20,}\b",
    "a key of Google": r"\bAIza[0-9A-Za-z_-]{35}\b",
    "a token of PyPI": r"\bpypi-AgEIcHlwaS[A-Za-z0-9_-]{50,}",
    "a token of Hugging Face": r"\bhf_[A-Za-z]{34,}\b",
    "a key of Azure": r"\b(?:AccountKey|SharedAccessKey)=[A-Za-z0-9+/]{40,}={0,2}",
    "a signed token": r"\beyJ[A-Za-z0-9_-]{15,}\.eyJ[A-Za-z0-9_-]{15,}\.[A-Za-z0-9_-]{20,}",
    "a password in a URL": r"[a-z]://[^\s/:@\"'{}<>]+:(?P<url>[^\s/@\"'{}<>$*]{3,})@[A-Za-z0-9\[]",
    "a password or key": f"{NAMED}(?:{PLAIN}|{ODD}|{BARE})",
}
PATTERN = re.compile("|".join(f"(?P<f{place}>{form})" for place, form in enumerate(FORMS.values())).encode())
NAMES = list(FORMS)
KNOWN = Path(__file__).with_name("known")
MAX_FILE_BYTES = 1 << 20
"""How many bytes of a file are searched."""


class NotSearched(Exception):
    """The search for secrets failed, because git failed."""


def secrets_in_files(root: Path) -> Iterator[str]:
    """Yield what looks like a secret in files that git tracks, or would track."""
    listed = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.decode(errors="replace").split("\0")):
        path = root / name
        if path.is_file() and not path.is_symlink():
            for number, line in enumerate(path.read_bytes()[:MAX_FILE_BYTES].splitlines(), 1):
                yield from (f"{name}:{number}: {what}" for what in secrets_of(line))


def secrets_in_history(root: Path) -> Iterator[str]:
    """Yield what looks like a secret in any line that a commit added."""
    log = _git(
        root, "log", "--all", "-p", "-U0", "--no-color", "--no-ext-diff", "--format=commit %h", "--", ".", ":!*.lock"
    )
    commit, name = "", ""
    for line in log.splitlines():
        if line.startswith(b"commit "):
            commit = line[7:].decode()
        elif line.startswith(b"+++ b/"):
            name = line[6:].decode(errors="replace")
        elif line.startswith(b"+"):
            yield from (f"commit {commit}, {name}: {what}" for what in secrets_of(line[1:]))


def secrets_of(line: bytes) -> Iterator[str]:
    """Yield what looks like a secret in a line: its kind and its mark, never the secret itself."""
    for found in PATTERN.finditer(line):
        what = next(
            NAMES[int(group[1:])] for group, value in found.groupdict().items() if value and group[1:].isdigit()
        )
        secret = found["url"] or found["plain"] or found["odd"] or found["bare"] or found[0]
        mark = sha256(secret).hexdigest()[:16]
        if mark not in _known():
            yield f"{what} (mark {mark})"


def _known() -> frozenset[str]:
    if not _read:
        _read.append(frozenset(line.split(" ", 1)[0] for line in KNOWN.read_text().splitlines() if line[:1] != "#"))
    return _read[0]


_read: list[frozenset[str]] = []


def _git(root: Path, *arguments: str) -> bytes:
    """Run git and return its output. Raise NotSearched if it fails, as in an unpacked archive without a repository."""
    try:
        process = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, check=False)
    except OSError as error:
        raise NotSearched(f"git cannot be run: {error}") from error
    if process.returncode:
        raise NotSearched(f"git {arguments[0]} failed: {process.stderr.decode(errors='replace').strip()}")
    return process.stdout
