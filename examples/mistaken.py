"""A pipeline with the classic mistake: a body that writes to the database by itself.

    holdfast crashtest examples/mistaken.py

finds it: after a kill at the wrong moment a customer has paid twice. `corrected` below has the few lines that mend it.
"""

import os
import sqlite3
from contextlib import closing

import holdfast

shop = holdfast.Pipeline("shop")


def documents():
    yield "order-1", {"lines": [["tea", 450], ["cup", 900]]}
    yield "order-2", {"lines": [["pot", 2500]]}


def prepare(tx):
    tx.execute("create table if not exists charge (customer text, article text, cents integer)")


@shop.step
def price(doc):
    return doc.payload["lines"]


@shop.step(over=price)
def charge(doc, line):
    # The mistake: this row is durable at once, the checkpoint only a moment later. A worker that is killed in between
    # leaves the row behind, and the next one charges again.
    with closing(our_own_connection()) as db, db:
        db.execute("insert into charge values (?, ?, ?)", (doc.key, *line))


def our_own_connection():
    store = os.environ.get("HOLDFAST_STORE", "sqlite:///holdfast.db")
    return sqlite3.connect(store.removeprefix("sqlite:///").partition("?")[0])


def corrected():
    """The same shop, with the row written in the step's effect: in the very transaction that moves the checkpoint."""
    shop = holdfast.Pipeline("shop")

    @shop.step
    def price(doc):
        return doc.payload["lines"]

    @shop.step(over=price)
    def charge(doc, line):
        return line

    @charge.effect
    def write(tx, doc, line):
        tx.execute("insert into charge values (?, ?, ?)", (doc.key, *line))

    return shop
