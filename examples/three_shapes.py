"""The three shapes of body, each with an effect that writes rows of its own.

    holdfast crashtest examples/three_shapes.py

kills it at every commit point and shows that the rows and the kept items are always the same.
"""

import asyncio

import holdfast

letters = holdfast.Pipeline("letters")


def documents():
    yield "hello", {"text": "dear reader\nall is well\nwe hold fast"}
    yield "short", {"text": "home soon"}
    yield "empty", {"text": ""}


def prepare(tx):
    tx.execute("create table if not exists line (letter text, number integer, line text, primary key (letter, number))")
    tx.execute("create table if not exists word (letter text, word text)")
    tx.execute("create table if not exists loud (letter text, word text)")
    tx.execute("create table if not exists postage (letter text, cents integer)")
    tx.execute("create table if not exists total (words integer, cents integer)")
    tx.execute("insert into total select 0, 0 where not exists (select 1 from total)")


def sql(tx, statement):
    """Parameters are ? on SQLite and %s on PostgreSQL: the one thing in which these statements differ."""
    return statement if tx.dialect == "sqlite" else statement.replace("?", "%s")


@letters.step  # a stream: kept item by item, resumed at the cursor
def read(doc, cursor=0):
    for number, line in enumerate(doc.payload["text"].splitlines()[cursor:], start=cursor):
        yield {"number": number, "line": line}


@read.effect
def keep_lines(tx, doc, lines):
    rows = [(doc.key, line["number"], line["line"]) for line in lines]
    tx.executemany(sql(tx, "insert into line values (?, ?, ?)"), rows)


@letters.step  # a value: one commit
def split(doc):
    return [word for line in doc.each(read) for word in line["line"].split()]


@split.effect
def keep_words(tx, doc, words):
    tx.executemany(sql(tx, "insert into word values (?, ?)"), [(doc.key, word) for word in words])
    tx.execute(sql(tx, "update total set words = words + ?"), (len(words),))


@letters.step(over=split, size=3)  # over items: holdfast walks them, in windows, and resumes between windows
def shout(doc, words):
    return [word.upper() for word in words]


@shout.effect
def keep_loud(tx, doc, words):
    tx.executemany(sql(tx, "insert into loud values (?, ?)"), [(doc.key, word) for word in words])


@letters.step(over=split, parallel=3)  # and several at once: short words overtake long ones
async def stamp(doc, word):
    await asyncio.sleep(len(word) / 2000)
    return len(word)


@stamp.effect
def keep_postage(tx, doc, cents):
    tx.execute(sql(tx, "insert into postage values (?, ?)"), (doc.key, cents))
    tx.execute(sql(tx, "update total set cents = cents + ?"), (cents,))


@letters.step
def seal(doc):
    return {"lines": len(doc.output(read)), "cents": sum(doc.output(stamp))}
