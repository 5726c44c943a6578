"""`holdfast explain`: why a document is where it is, and why a batch does not finish."""

from __future__ import annotations

import click

from holdfast.cli.asked import Asked, Trouble, common
from holdfast.cli.chosen import the_one
from holdfast.cli.saying import say_lines, tell
from holdfast.cli.stores import known_batch, known_pipeline, store_that_exists
from holdfast.engine.explain import Explanation
from holdfast.engine.explain import explain as explain_document
from holdfast.engine.explain_batch import explain_batch
from holdfast.stores.protocol import Store


@click.command()
@click.argument("document", required=False)
@click.option("--pipeline", help="Only in this pipeline (its name, or its file).")
@click.option("--batch", help="Only in this batch; without a DOCUMENT, the batch itself is explained.")
@common
@click.pass_obj
def explain(asked: Asked, *, document: str | None, pipeline: str | None, batch: str | None) -> None:
    """Says why the DOCUMENT is where it is, and what can be done about it.

    With --batch and no DOCUMENT it says why the batch does not finish: how many documents each cause keeps, the most
    first. It reads the store only. With --batch, DOCUMENT may also be the name of a pipeline, or its file.
    """
    with store_that_exists(asked) as store:
        if document and batch and not pipeline and _is_a_pipeline(store, document, batch):
            document, pipeline = None, document
        if document:
            told = _of_a_document(asked, store, document, pipeline, batch)
        elif batch:
            told = _of_a_batch(asked, store, pipeline, batch)
        else:
            raise Trouble("say what to explain: a document's key, or --batch and the name of a batch")
        if asked.json:
            tell({"sentences": told.sentences, **told.facts})
        else:
            say_lines(told)


def _is_a_pipeline(store: Store, word: str, batch: str) -> bool:
    """A document of that name comes first."""
    if any(one.batch == batch for one in store.find(word)):
        return False
    return word in store.pipelines() or word.endswith(".py") or ".py:" in word


def _of_a_document(asked: Asked, store: Store, key: str, pipeline: str | None, batch: str | None) -> Explanation:
    here = the_one(asked, store, key, pipeline=pipeline, batch=batch)
    return explain_document(store, here, command=asked.command)


def _of_a_batch(asked: Asked, store: Store, pipeline: str | None, batch: str) -> Explanation:
    if pipeline:
        name = known_pipeline(store, pipeline)
        known_batch(store, name, batch)
    else:
        name = _the_pipeline_that_has(asked, store, batch)
    return explain_batch(store, name, batch, command=asked.command)


def _the_pipeline_that_has(asked: Asked, store: Store, batch: str) -> str:
    names = [name for name in store.pipelines() if any(one.name == batch for one in store.batches(name))]
    if len(names) == 1:
        return names[0]
    if not names:
        raise Trouble(
            f"no pipeline of {asked.shown_store} has a batch {batch!r}; `holdfast status` tells what is there"
        )
    commands = "\n".join(f"  {asked.command('explain', '--batch', batch, '--pipeline', name)}" for name in names)
    raise Trouble(f"{len(names)} pipelines have a batch {batch!r}; say which:\n{commands}")
