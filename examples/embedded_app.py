"""holdfast in a FastAPI app: a paginated API that throttles is loaded into a table, through SQLAlchemy.

    pip install 'holdfast-pipelines[postgres,sqlalchemy]' fastapi httpx uvicorn
    python examples/embedded_app.py

A request stores a row of the app and submits a document, in one transaction. A worker loads the pages, and commits the
rows of each page with its cursor. The script starts a small API to load from, and asks the app for a crew. With
DATABASE_URL=postgresql+psycopg://user:password@host/name it uses PostgreSQL, else SQLite.

In production, let a server run the app, and workers in processes of their own:

    WORKER=process uvicorn --app-dir examples embedded_app:app
    holdfast work examples/embedded_app.py:crew --store "$DATABASE_URL"
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

from fastapi import FastAPI, HTTPException, Request
from sqlalchemy import String, create_engine, delete, func, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import holdfast
import holdfast.sqlalchemy

URL = os.environ.get("DATABASE_URL", "sqlite:///embedded_app.db")
engine = create_engine(URL)


# the tables of the app


class Base(DeclarativeBase):
    pass


class Ship(Base):
    __tablename__ = "ship"
    name: Mapped[str] = mapped_column(String(50), primary_key=True)


class Sailor(Base):
    __tablename__ = "sailor"
    id: Mapped[int] = mapped_column(primary_key=True)
    ship: Mapped[str] = mapped_column(String(50))
    name: Mapped[str] = mapped_column(String(50))


# the pipeline

crew = holdfast.Pipeline("crew")


@crew.step(commit_every=1)
def load(doc, cursor=None):
    """Yield page after page. The token of the next page is the cursor; None after the last page ends the stream."""
    while True:
        try:
            with urlopen(f"{doc.payload['url']}?after={quote(cursor or '')}", timeout=30) as answer:
                page = json.load(answer)
        except HTTPError as refusal:
            if refusal.code != 429:
                raise
            raise holdfast.RetryLater("too many requests", after=float(refusal.headers["Retry-After"])) from refusal
        cursor = page["next_token"]
        yield holdfast.At(cursor, page["records"])


@load.effect  # in the transaction that commits the cursor
def save(tx, doc, pages):
    with holdfast.sqlalchemy.session(tx) as session:
        session.add_all(Sailor(ship=doc.key, name=name) for page in pages for name in page)


@load.undo  # before a ship is loaded again
def remove(tx, doc):
    with holdfast.sqlalchemy.session(tx) as session:
        session.execute(delete(Sailor).where(Sailor.ship == doc.key))


# the app


@asynccontextmanager
async def lifespan(app):
    await asyncio.to_thread(Base.metadata.create_all, engine)
    with holdfast.open(URL) as store:
        app.state.store = store
        if os.environ.get("WORKER") == "process":  # workers are processes of their own: a restart of the app stops none
            yield
            return
        budget = holdfast.Budget()
        worker = threading.Thread(target=holdfast.work, args=(crew, store), kwargs={"budget": budget})
        worker.start()
        try:
            yield
        finally:
            budget.stop("the app stops")  # at the next item; the document goes on later, at its cursor
            await asyncio.to_thread(worker.join)


app = FastAPI(lifespan=lifespan)


@app.post("/ships/{name}", status_code=202)
def add_ship(name: str, api: str, request: Request):
    """Add a ship, and submit the load of its crew. Both are there, or neither."""
    with Session(engine) as session:
        if session.get(Ship, name) is None:
            session.add(Ship(name=name))
        documents = [(name, {"url": api})]
        result = holdfast.submit(crew, request.app.state.store, batch="web", documents=documents, connection=session)
        session.commit()
    return {"new": result.new, "changed": result.changed}


@app.get("/ships/{name}")
def show_ship(name: str, request: Request):
    """Tell how far the load of one ship is."""
    try:
        document = request.app.state.store.document("crew", "web", name)
    except (holdfast.UnknownBatch, holdfast.UnknownDocument) as error:
        raise HTTPException(404, str(error)) from error
    with Session(engine) as session:
        sailors = session.scalar(select(func.count()).where(Sailor.ship == name))
    return {"state": document.state, "reason": document.reason, "sailors": sailors}


@app.get("/progress")
def show_progress(request: Request):
    """Tell how many documents are in each state."""
    balance = request.app.state.store.balance("crew", "web")
    return {"expected": balance.expected, "done": balance.done, "dead": balance.dead, "open": balance.open}


# a small API to load from, for this example only


class Api(BaseHTTPRequestHandler):
    pages = {"": (["Ahab", "Bildad"], "p2"), "p2": (["Ishmael"], "p3"), "p3": (["Queequeg"], None)}
    asked: list[str] = []

    def do_GET(self):
        token = self.path.partition("?after=")[2]
        self.asked.append(token or "first page")
        if len(self.asked) == 2:  # the second request is one too many
            self.send_response(429)
            self.send_header("Retry-After", "0.1")
            self.end_headers()
            return
        records, following = self.pages[token]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"records": records, "next_token": following}).encode())

    def log_message(self, *_):
        pass


def main():
    from fastapi.testclient import TestClient

    api = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=api.serve_forever, daemon=True).start()
    with TestClient(app) as client:
        url = f"http://127.0.0.1:{api.server_port}/crew"
        print("submitted:", client.post("/ships/pequod", params={"api": url}).json())
        for _ in range(600):
            ship = client.get("/ships/pequod").json()
            if ship["state"] == "done":
                break
            time.sleep(0.1)
        print("pequod:", ship["state"], "with", ship["sailors"], "sailors")
        print("the API was asked for:", ", ".join(Api.asked))
        print("progress:", client.get("/progress").json())
    api.shutdown()
    api.server_close()


if __name__ == "__main__":
    main()
