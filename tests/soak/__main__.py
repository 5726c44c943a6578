"""Run a soak test on one store and print the result as JSON: `make soak`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from random import randrange

import msgspec

from tests.soak.runner import SoakResult, run_soak


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="inject faults for this long (default 600)")
    parser.add_argument("--documents", type=int, default=200_000, help="number of documents (default 200,000)")
    parser.add_argument("--on", choices=["sqlite", "postgres"], default="sqlite", help="the store (default sqlite)")
    parser.add_argument("--workers", type=int, help="number of workers (default 2 on SQLite, 4 on PostgreSQL)")
    parser.add_argument("--seed", type=int, default=randrange(10**6), help="seed of the random choices")
    args = parser.parse_args()
    print(f"soak: seed {args.seed}", flush=True)
    result = _on_postgres(args) if args.on == "postgres" else _on_sqlite(args)
    print(msgspec.json.format(msgspec.json.encode(result)).decode())
    return 1 if result.violations or result.balance.open else 0


def _on_sqlite(args: argparse.Namespace) -> SoakResult:
    with tempfile.TemporaryDirectory() as folder:
        return _soak(args, f"sqlite:///{folder}/soak.db", Path(folder), workers=args.workers or 2)


def _on_postgres(args: argparse.Namespace) -> SoakResult:
    from tests.support.postgres import durable_postgres

    with tempfile.TemporaryDirectory() as folder, durable_postgres() as server:

        def restart() -> None:
            server.crash()
            server.start()

        url = server.create_database("soak")
        return _soak(args, url, Path(folder), workers=args.workers or 4, restart=restart)


def _soak(args: argparse.Namespace, url: str, folder: Path, **more: object) -> SoakResult:
    result = run_soak(url, folder, documents=args.documents, seconds=args.seconds, seed=args.seed, **more)
    if log := (folder / "workers.log").read_text()[-3000:]:
        print(f"the end of the workers' log:\n{log}")
    return result


if __name__ == "__main__":
    sys.exit(main())
