"""Runs a soak on one store and prints what was found: `make soak`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from random import randrange

import msgspec

from tests.soak.trouble import Findings, run_soak


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--on", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--workers", type=int, help="how many processes work (2 on SQLite, 4 on PostgreSQL)")
    parser.add_argument("--seed", type=int, default=randrange(10**6))
    asked = parser.parse_args()
    print(f"soak: seed {asked.seed}", flush=True)
    found = _on_postgres(asked) if asked.on == "postgres" else _on_sqlite(asked)
    print(msgspec.json.format(msgspec.json.encode(found)).decode())
    return 1 if found.faults or found.balance.open else 0


def _on_sqlite(asked: argparse.Namespace) -> Findings:
    with tempfile.TemporaryDirectory() as folder:
        return _soak(asked, f"sqlite:///{folder}/soak.db", Path(folder), workers=asked.workers or 2)


def _on_postgres(asked: argparse.Namespace) -> Findings:
    from holdfast.testing.postgres import durable_postgres

    with tempfile.TemporaryDirectory() as folder, durable_postgres() as server:

        def restart() -> None:
            server.crash()
            server.start()

        url = server.create_database("soak")
        return _soak(asked, url, Path(folder), workers=asked.workers or 4, restart=restart)


def _soak(asked: argparse.Namespace, url: str, folder: Path, **more: object) -> Findings:
    found = run_soak(url, folder, documents=asked.documents, seconds=asked.seconds, seed=asked.seed, **more)
    if said := (folder / "workers.log").read_text()[-3000:]:
        print(f"the workers said at the end:\n{said}")
    return found


if __name__ == "__main__":
    sys.exit(main())
