"""Audits dependencies and looks for secrets: `make audit`. Everything but known vulnerabilities is checked offline."""

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
    "every entry of the locks has hashes, and none is from a URL": unlocked,
    "every import is declared, and every dependency used": undeclared,
    "every licence of what runs is an allowed one": unlicensed,
    "no file has a secret in it": secrets_in_files,
    "no secret was ever committed": secrets_in_history,
    "no dependency has a known vulnerability": vulnerable,
}


def main() -> int:
    wrong = 0
    for claim, check in CHECKS.items():
        try:
            found = list(check(ROOT))
        except NotChecked as why:
            print(f"unknown: {claim}; {why}", flush=True)
            continue
        except NotSearched as why:  # unlike the package index, git is there wherever the audit is run
            found = [str(why)]
        print(f"{'not so' if found else 'so':>7}: {claim}", flush=True)
        for one in found:
            print(f"        {one}")
        wrong += len(found)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
