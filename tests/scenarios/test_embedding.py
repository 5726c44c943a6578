"""holdfast inside of other programs: a web app, an event loop, a notebook."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from queue import Empty
from typing import Any

import nbformat
import pytest
from fastapi import FastAPI, HTTPException
from fastapi.testclient import TestClient
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from sqlalchemy import String, create_engine, func, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import holdfast
import holdfast.sqlalchemy
from holdfast.stores.protocol import Store

BOUND = 60.0
"""Seconds after which a test gives up."""


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    urls: dict[str, Callable[[], str]] = {
        "sqlite": lambda: f"sqlite:///{tmp_path}/app.db",
        "postgresql": lambda: str(request.getfixturevalue("postgres_url")).replace(":", "+psycopg:", 1),
    }
    return urls[request.param]()


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    name: Mapped[str] = mapped_column(String(20), primary_key=True)


def web_app(url: str, done: threading.Event) -> FastAPI:
    """Return an app with a worker thread. A request stores an order and submits a document in one transaction."""
    engine = create_engine(url)
    orders = holdfast.Pipeline("orders")

    @orders.step
    async def ship(doc: holdfast.Document) -> str:
        await asyncio.sleep(0)
        return doc.key

    @ship.effect
    def save(tx: holdfast.Tx, doc: holdfast.Document, name: str) -> None:
        with holdfast.sqlalchemy.session(tx) as session:
            session.add(Order(name=f"shipped {name}"))
        done.set()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> Any:
        Base.metadata.create_all(engine)
        with holdfast.open(url) as store:
            app.state.store, app.state.budget = store, holdfast.Budget()
            how = {"budget": app.state.budget}
            app.state.worker = threading.Thread(target=holdfast.work, args=(orders, store), kwargs=how)
            app.state.worker.start()
            yield
            app.state.budget.stop("the app stops")
            await asyncio.to_thread(app.state.worker.join)
        engine.dispose()

    app = FastAPI(lifespan=lifespan)

    @app.post("/orders/{name}")
    def order(name: str, valid: bool = True) -> dict[str, int]:
        with Session(engine) as session:
            session.add(Order(name=name))
            result = holdfast.submit(orders, app.state.store, batch="web", documents=[(name, None)], connection=session)
            if not valid:
                raise HTTPException(400)
            session.commit()
        return {"new": result.new}

    @app.get("/orders")
    def count() -> dict[str, int]:
        with Session(engine) as session:
            rows = session.scalar(select(func.count()).select_from(Order)) or 0
        return {"rows": rows, "expected": app.state.store.balance("orders").expected}

    return app


def test_a_request_submits_in_its_own_transaction_and_a_worker_thread_stops_with_the_app(url: str) -> None:
    done = threading.Event()
    app = web_app(url, done)
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with TestClient(app) as client:
        assert client.post("/orders/bad", params={"valid": False}).status_code == 400
        assert client.get("/orders").json() == {"rows": 0, "expected": 0}
        assert client.post("/orders/good").json() == {"new": 1}
        assert done.wait(BOUND)
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert not app.state.worker.is_alive()
    with holdfast.open(url) as store:
        assert [(one.key, one.state) for one in store.documents("orders", limit=10)] in ([("good", "done")],)


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with holdfast.open(url) as store:
        yield store


def _awaiting() -> holdfast.Pipeline:
    papers = holdfast.Pipeline("papers")

    @papers.step
    async def read(doc: holdfast.Document, cursor: int = 0) -> Any:
        for number in range(cursor, 3):
            await asyncio.sleep(0)
            yield number

    @papers.step(over=read, size=2, parallel=2)
    async def double(doc: holdfast.Document, numbers: Any) -> list[int]:
        await asyncio.sleep(0)
        return [2 * number for number in numbers]

    return papers


@pytest.mark.parametrize("how", ["in a thread", "in the loop"])
def test_a_pipeline_is_drained_while_an_event_loop_runs(store: Store, how: str) -> None:
    papers = _awaiting()
    ticks: list[int] = []

    async def tick() -> None:
        for number in range(1000):
            ticks.append(number)
            await asyncio.sleep(0.001)

    async def main() -> holdfast.Report:
        ticking = asyncio.create_task(tick())
        if how == "in a thread":
            report = await asyncio.to_thread(holdfast.drain, papers, store)
        else:
            report = holdfast.drain(papers, store)
        ticking.cancel()
        return report

    before = signal.getsignal(signal.SIGINT)
    holdfast.submit(papers, store, batch="b", documents=[(str(number), None) for number in range(5)])
    assert asyncio.run(main()).done == 5
    assert signal.getsignal(signal.SIGINT) == before
    assert bool(ticks) == (how == "in a thread")


def test_a_stopped_budget_ends_a_drain_in_a_thread(store: Store) -> None:
    papers = holdfast.Pipeline("papers")
    budget, started = holdfast.Budget(), threading.Event()

    @papers.step
    def count(doc: holdfast.Document, cursor: int = 0) -> Any:
        for number in range(cursor, 10_000_000):
            started.set()
            yield number

    async def main() -> holdfast.Report:
        draining = asyncio.create_task(asyncio.to_thread(holdfast.drain, papers, store, budget=budget))
        await asyncio.to_thread(started.wait, BOUND)
        budget.stop("the page was closed")
        return await draining

    holdfast.submit(papers, store, batch="b", documents=[("a", None)])
    report = asyncio.run(main())
    assert (report.released, report.stopped_by) == (1, "the page was closed")


DEFINITIONS = """
import asyncio, holdfast
papers = holdfast.Pipeline("papers")

@papers.step
async def read(doc, cursor=0):
    for number in range(cursor, 3):
        await asyncio.sleep(0)
        yield number

@papers.step(over=read, size=2)
def double(doc, numbers):
    return [2 * number for number in numbers]
"""
DRAIN = """
with holdfast.open("sqlite:///notebook.db") as store:
    holdfast.submit(papers, store, batch="b", documents=[("a", 1), ("b", 1)])
    print(holdfast.drain(papers, store).done, "done")
"""
DRAIN_IN_A_THREAD = """
with holdfast.open("sqlite:///notebook.db") as store:
    holdfast.submit(papers, store, batch="b", documents=[("c", 1)])
    print((await asyncio.to_thread(holdfast.drain, papers, store)).done, "done")
"""


@pytest.fixture
def kernel_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")


@pytest.mark.usefixtures("kernel_environment")
@pytest.mark.filterwarnings("ignore")
def test_the_cells_of_a_notebook_can_be_executed_again(tmp_path: Path) -> None:
    cells = [DEFINITIONS, DRAIN, DEFINITIONS, DRAIN, DRAIN_IN_A_THREAD]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=BOUND, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = ["".join(output.get("text", "") for output in cell.outputs).strip() for cell in notebook.cells]
    assert printed == ["", "2 done", "", "0 done", "1 done"]


ENDLESS = """
import holdfast
endless = holdfast.Pipeline("endless")

@endless.step
def count(doc, cursor=0):
    for number in range(cursor, 10**9):
        yield number
        if number == cursor:
            print("started", flush=True)

with holdfast.open("sqlite:///notebook.db") as store:
    holdfast.submit(endless, store, batch="b", documents=[("a", None)])
    report = holdfast.drain(endless, store)
print(report.stopped_by, report.released)
"""


@pytest.mark.usefixtures("kernel_environment")
@pytest.mark.filterwarnings("ignore")
def test_an_interrupted_cell_gives_its_documents_back_and_the_kernel_goes_on(tmp_path: Path) -> None:
    kernel = KernelManager()
    kernel.start_kernel(cwd=str(tmp_path))
    client = kernel.client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=BOUND)
        client.execute(ENDLESS)
        assert "started" in _printed(client, until="started")
        kernel.interrupt_kernel()
        assert "SIGINT 1" in _printed(client, until="SIGINT")
        client.execute("print(6 * 7)")
        assert "42" in _printed(client, until="42")
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)
        kernel.cleanup_resources()


def _printed(client: Any, *, until: str) -> str:
    """Return what cells print, up to a word."""
    printed = ""
    for _ in range(10_000):
        try:
            message = client.get_iopub_msg(timeout=BOUND)
        except Empty:
            break
        content = message["content"]
        printed += content.get("text", "") + "".join(content.get("traceback", []))
        if until in printed:
            break
    return printed
