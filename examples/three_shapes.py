"""The three shapes of body, each with its own rows: rows of a table, or an effect with its undo.

    holdfast pipeline crashtest examples/three_shapes.py

kills it at every commit point and shows that the rows and the stored items are always the same.
"""

import asyncio

import holdfast

letters = holdfast.Pipeline("letters")


def documents():
    yield "hello", {"text": "dear reader\nall is well\nwe hold fast"}
    yield "short", {"text": "home soon"}
    yield "empty", {"text": ""}


def prepare(tx):
    tx.execute("create table if not exists line (document_id bigint, number integer, line text)")
    tx.execute("create table if not exists word (letter text, word text)")
    tx.execute("create table if not exists loud (document_id bigint, word text)")
    tx.execute("create table if not exists postage (letter text, cents integer)")
    tx.execute("create table if not exists total (words integer, cents integer)")
    tx.execute("insert into total select 0, 0 where not exists (select 1 from total)")


@letters.step  # a stream: stored item by item, resumed at the cursor
def read(doc, cursor=0):
    for number, line in enumerate(doc.payload["text"].splitlines()[cursor:], start=cursor):
        yield {"number": number, "line": line}


@read.rows("line")  # a letter that changes replaces its lines
def keep_lines(doc, lines):
    return lines


@letters.step  # a value: one commit
def split(doc):
    return [word for line in doc.each(read) for word in line["line"].split()]


@split.effect
def keep_words(tx, doc, words):
    tx.executemany("insert into word values (?, ?)", [(doc.key, word) for word in words])
    tx.execute("update total set words = words + ?", (len(words),))


@split.undo  # when a letter changes: take its words out of the sum
def remove_words(tx, doc):
    removed = tx.execute("delete from word where letter = ?", (doc.key,)).rowcount
    tx.execute("update total set words = words - ?", (removed,))


@letters.step(over=split, size=3)  # over items: in windows, resumed between windows
def shout(doc, words):
    return [word.upper() for word in words]


@shout.rows("loud")
def keep_loud(doc, words):
    return [{"word": word} for word in words]


@letters.step(over=split, parallel=3)  # several windows at the same time: short words overtake long ones
async def stamp(doc, word):
    await asyncio.sleep(len(word) / 2000)
    return len(word)


@stamp.effect
def keep_postage(tx, doc, cents):
    tx.execute("insert into postage values (?, ?)", (doc.key, cents))
    tx.execute("update total set cents = cents + ?", (cents,))


@stamp.undo
def remove_postage(tx, doc):
    paid = "select coalesce(sum(cents), 0) from postage where letter = ?"
    tx.execute(f"update total set cents = cents - ({paid})", (doc.key,))
    tx.execute("delete from postage where letter = ?", (doc.key,))


@letters.step
def seal(doc):
    return {"lines": len(doc.output(read)), "cents": sum(doc.output(stamp))}
