"""A store on an SQL database: all roles, and its schema."""

from __future__ import annotations

from holdfast.core.errors import SchemaNewer, SchemaOutdated
from holdfast.stores.sql.batches import Batches
from holdfast.stores.sql.circuits import Circuits
from holdfast.stores.sql.cleanup import Cleanup
from holdfast.stores.sql.decisions import Decisions
from holdfast.stores.sql.documents import DocumentReads
from holdfast.stores.sql.intake import Intake
from holdfast.stores.sql.maintenance import Maintenance
from holdfast.stores.sql.overview import OverviewReads, WaitCauses


class SqlStore(Intake, Circuits, OverviewReads, DocumentReads, WaitCauses, Maintenance, Cleanup, Decisions, Batches):
    """The roles that are the same on every SQL database. Commits, connections and the schema are each store's own."""


def refuse_other_schema(name: str, version: int, newest: int) -> None:
    """Raise SchemaOutdated or SchemaNewer if a store has another schema than this holdfast needs."""
    if version < newest:
        raise SchemaOutdated(
            f"{name} has schema {version} and this holdfast needs {newest}: run `holdfast store migrate`"
        )
    if version > newest:
        raise SchemaNewer(f"{name} has schema {version}, newer than the {newest} of this holdfast: upgrade holdfast")
