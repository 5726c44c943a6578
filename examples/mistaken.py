"""A pipeline with a common mistake: a body that writes to the database itself.

    holdfast pipeline crashtest examples/mistaken.py

finds it: after a kill at the wrong moment, a customer has paid twice. `corrected` below shows how to fix it.
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
    # The mistake: this row is durable at once, but the checkpoint only a moment later. If the worker is killed between
    # the two, the row stays, and the next worker charges again.
    with closing(our_own_connection()) as db, db:
        db.execute("insert into charge values (?, ?, ?)", (doc.key, *line))


def our_own_connection():
    store = os.environ.get("HOLDFAST_STORE", "sqlite:///holdfast.db")
    return sqlite3.connect(store.removeprefix("sqlite:///").partition("?")[0])


def corrected():
    """Return the same shop, but the effect writes the row, in the transaction that moves the checkpoint."""
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

    @charge.undo
    def refund(tx, doc):
        tx.execute("delete from charge where customer = ?", (doc.key,))

    return shop
