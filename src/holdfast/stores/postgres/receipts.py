"""Receipts: rows by which a lost answer to a commit is settled.

Every transaction that writes first writes its number into the row of its connection in hf_receipt. Nobody else writes
that number into that row. So if the answer to a commit is lost, another transaction asks for the number, and writes
something itself. That settles the commit by the server's own rules:

- The lost transaction has locked the row. The other one waits until it has ended, also while it waits for a standby.
- The other one has to commit too, and its commit comes later in the log. If a standby has to confirm commits, it
  confirms both.
- After a failover the row is there if the new server has the transaction, and not there if it does not.

A number of the server, such as the number of the transaction, would not do. A server gives a number again that was lost
in a crash or a failover, and a transaction that waits for a standby counts as committed if its backend is ended.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.stores.postgres.url import in_schema


class Receipt(NamedTuple):
    """What a transaction writes about itself: the mark of its connection, and its number there."""

    connection: str
    number: int

    def begin(self, first: str = "", *, schema: str = "") -> str:
        """Return the statements that begin the transaction, write the receipt, and return its limit for idling.

        `first` is a statement that comes before the receipt. `schema` is that of our tables. The limit is in seconds.
        """
        table = in_schema("hf_receipt", schema)
        tidy = DELETE_OLD.format(table=table) if self.number == 1 else ""
        return BEGIN.format(table=table, connection=self.connection, number=self.number, first=first + tidy)


BEGIN = """
begin isolation level read committed;
{first}
insert into {table} (connection, number, written_at)
values ('{connection}', {number}, now())
    on conflict (connection) do update
   set number = excluded.number, written_at = excluded.written_at
returning extract(epoch from set_config(
         'idle_in_transaction_session_timeout',
         coalesce(nullif(current_setting('idle_in_transaction_session_timeout'), '0'), '30s'), true)::interval)::float8
"""
"""A worker that is stopped in the middle of a transaction must not keep its rows locked. So the server ends an idle
transaction after 30 s, or after the limit of the database if it has one. It applies to this transaction only."""

DELETE_OLD = """
delete from {table}
 where connection in (select connection
                        from {table}
                       where written_at < now() - interval '7 days'
                         for update skip locked);
"""
"""Receipts of connections that are long closed. A connection that still lives writes its receipt again."""

SETTLE = """
insert into hf_receipt as r (connection, number, written_at)
values (%(connection)s, 0, now())
    on conflict (connection) do update
   set written_at = excluded.written_at
returning r.number = %(number)s
"""
"""Return true if a transaction was committed. Wait for it if it has not ended yet."""
