"""The view `file_checkpoints`: one row for each record file, with its state and its statistics.

It joins the documents of a store with the table `file_loads`, which the pipeline of record files creates.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.moves import Tx

_STATUS = """
  case d.state when 'done' then 'completed' when 'running' then 'processing' when 'dead' then 'failed'
               when 'waiting' then case when d.reason <> '' and d.attempts > 0 then 'failed' else 'pending' end
               else d.state end"""
_VIEW = """
create view file_checkpoints as
select d.key as file_url, coalesce(l.file_type, '') as file_type, l.file_timestamp, {status} as status,
       coalesce(l.records_total, 0) as records_total, coalesce(l.records_filtered, 0) as records_filtered,
       coalesce(l.records_persisted, 0) as records_persisted, coalesce(l.records_failed, 0) as records_failed,
       coalesce(l.processing_time_ms, 0) as processing_time_ms,
       nullif(case when d.state = 'done' then '' else d.reason end, '') as error_message,
       case when d.attempts > 1 then d.attempts - 1 else 0 end as retry_count, d.worked_by as processed_by,
       l.started_at, l.completed_at, d.submitted as created_at, d.batch, d.id as document_id
  from hf_documents d
  left join file_loads l on l.document_id = d.id
 where d.pipeline in ({pipelines})"""


def create_view(tx: Tx, pipelines: Sequence[str]) -> None:
    """Create the view, if there is none.

    Args:
        tx: A transaction of the store.
        pipelines: The pipelines whose documents are record files.
    """
    known = (
        "select 1 from sqlite_master where type = 'view' and name = 'file_checkpoints'"
        if tx.dialect == "sqlite"
        else "select 1 from pg_views where viewname = 'file_checkpoints' and schemaname = current_schema()"
    )
    if tx.execute(known).fetchone() is None:
        names = ", ".join("'" + name.replace("'", "''") + "'" for name in pipelines)
        tx.execute(_VIEW.format(status=_STATUS, pipelines=names))
