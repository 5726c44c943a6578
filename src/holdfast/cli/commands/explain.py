"""`holdfast explain`: explain the state of a document, or why a batch does not finish."""

from __future__ import annotations

import click

from holdfast.cli.context import CliContext, CliError
from holdfast.cli.options import common_options, pipeline_option
from holdfast.cli.output import only_prints, print_json, print_lines
from holdfast.cli.selection import find_document
from holdfast.cli.shown_keys import possible_keys
from holdfast.cli.store_access import open_existing_store, require_batch, require_pipeline
from holdfast.ops.explain.batch import explain_batch
from holdfast.ops.explain.document import Explanation
from holdfast.ops.explain.document import explain as explain_document
from holdfast.stores.protocol import Store


@click.command()
@click.argument("document", metavar="[KEY]", required=False)
@pipeline_option
@click.option("--batch", metavar="NAME", help="Only this batch. Without KEY, explain the batch.")
@common_options
@click.pass_obj
@only_prints
def explain(cli: CliContext, *, document: str | None, pipeline: str | None, batch: str | None) -> None:
    """Explain why a document or a batch does not go on. It also says what to do, and changes nothing.

    KEY is the key of a document. With --batch and no KEY, explain why the batch does not finish: the causes, with the
    number of documents of each. With --batch, KEY can also be the name of a pipeline, or its file.
    """
    with open_existing_store(cli) as store:
        if document and batch and not pipeline and _is_pipeline(store, document, batch):
            document, pipeline = None, document
        if document:
            explanation = _explain_document(cli, store, document, pipeline, batch)
        elif batch:
            explanation = _explain_batch(cli, store, pipeline, batch)
        else:
            raise CliError("say what to explain: give the key of a document, or --batch with the name of a batch")
        if cli.json:
            print_json({"sentences": explanation.sentences, **explanation.facts})
        else:
            print_lines(explanation)


def _is_pipeline(store: Store, name: str, batch: str) -> bool:
    """Return True if the name is that of a pipeline. If the batch has a document with this key, return False."""
    found = (document for key in possible_keys(name) for document in store.find(key))
    if any(document.batch == batch for document in found):
        return False
    return name in store.pipelines() or name.endswith(".py") or ".py:" in name


def _explain_document(cli: CliContext, store: Store, key: str, pipeline: str | None, batch: str | None) -> Explanation:
    document = find_document(cli, store, key, pipeline=pipeline, batch=batch)
    return explain_document(store, document, command=cli.command)


def _explain_batch(cli: CliContext, store: Store, pipeline: str | None, batch: str) -> Explanation:
    if pipeline:
        name = require_pipeline(store, pipeline)
        require_batch(store, name, batch)
    else:
        name = _pipeline_of_batch(cli, store, batch)
    return explain_batch(store, name, batch, command=cli.command)


def _pipeline_of_batch(cli: CliContext, store: Store, batch: str) -> str:
    names = [name for name in store.pipelines() if any(known.name == batch for known in store.batches(name))]
    if len(names) == 1:
        return names[0]
    if not names:
        raise CliError(f"{cli.shown_store} has no batch {batch!r}; `holdfast status` shows what the store has")
    commands = "\n".join(f"  {cli.command('explain', '--batch', batch, '--pipeline', name)}" for name in names)
    raise CliError(f"{len(names)} pipelines have a batch {batch!r}; say which:\n{commands}")
