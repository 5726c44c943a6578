"""A pgbouncer for tests, in transaction pooling mode: each transaction may get another session."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.postgres import Postgres, unprivileged_user


def find_pgbouncer() -> str | None:
    """Return the path of the program, or None if it is not installed."""
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@contextmanager
def pgbouncer(server: Postgres, *, connections: int = 2) -> Iterator[int]:
    """Run a pgbouncer with this many connections to a server. Yield its port."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bouncer-", dir="/tmp") as folder:
        yield from _running(server, Path(folder), connections)


def _running(server: Postgres, folder: Path, connections: int) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    settings = folder / "pgbouncer.ini"
    settings.write_text(
        f"""
        [databases]
        * = host=127.0.0.1 port={server.port}
        [pgbouncer]
        listen_addr = 127.0.0.1
        listen_port = {port}
        unix_socket_dir =
        auth_type = trust
        auth_file = {folder}/users
        pool_mode = transaction
        default_pool_size = {connections}
        max_client_conn = 2000
        logfile = {folder}/pgbouncer.log
        """.replace("        ", "")
    )
    (folder / "users").write_text('"postgres" ""\n')
    user = unprivileged_user()
    for path in (folder, *folder.iterdir()):
        if user:
            os.chown(path, user["user"], user["group"])
    bouncer = subprocess.Popen([str(find_pgbouncer()), "-q", str(settings)], cwd="/", **user)
    try:
        _wait_for(port)
        yield port
    finally:
        bouncer.terminate()
        bouncer.wait(10)


def _wait_for(port: int) -> None:
    until = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            return
