"""Audit dependencies and search for secrets: `make audit`. Only the check for known vulnerabilities needs a network."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.audit.dependencies import undeclared, unlocked
from tests.audit.licences import unlicensed
from tests.audit.secrets import NotSearched, secrets_in_files, secrets_in_history
from tests.audit.vulnerabilities import NotChecked, vulnerable

ROOT = Path(__file__).parents[2]
CHECKS: dict[str, Callable[[Path], Iterable[str]]] = {
    "every entry of the lock files has hashes, and none is from a URL": unlocked,
    "every import is declared, and every dependency is used": undeclared,
    "every runtime dependency has an allowed licence": unlicensed,
    "no file contains a secret": secrets_in_files,
    "no commit contains a secret": secrets_in_history,
    "no dependency has a known vulnerability": vulnerable,
}


def main() -> int:
    count = 0
    for claim, check in CHECKS.items():
        try:
            problems = list(check(ROOT))
        except NotChecked as reason:
            print(f"unknown: {claim}; {reason}", flush=True)
            continue
        except NotSearched as reason:  # a failure: unlike the package index, git must be available for an audit
            problems = [str(reason)]
        print(f"{'failed' if problems else 'ok':>7}: {claim}", flush=True)
        for problem in problems:
            print(f"        {problem}")
        count += len(problems)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
