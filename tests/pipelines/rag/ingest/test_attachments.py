"""Attachments have keys that a store can look up, however deep their message is and however long their names are."""

from __future__ import annotations

from contextlib import closing
from email.message import EmailMessage
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="document search needs the extra rag")

from holdfast.core.text_limits import MAX_KEY
from holdfast.pipelines import rag
from holdfast.stores.protocol import Store


def test_long_names_of_attachments_in_deep_folders_are_cut_and_stay_different(
    each_store: Store, tmp_path: Path
) -> None:
    folder = deep = tmp_path / "folder"
    for _ in range(4):
        deep /= "x" * 240
    deep.mkdir(parents=True)
    message = EmailMessage()
    message["Subject"] = "Tides"
    message.set_content("Two reports.")
    for number in range(2):
        name = f"{'é' * 140}{number}.txt"
        message.add_attachment(f"Report {number}: plover".encode(), maintype="text", subtype="plain", filename=name)
    (deep / "a.eml").write_bytes(message.as_bytes())
    with closing(rag.Library(each_store, settings=rag.CollectionSettings(embedder="hash:64"))) as library:
        library.ingest(str(folder))
        found = {one.key for one in library.search("plover") if "plover" in one.snippet}
        assert len(found) == 2
        assert all(len(key.encode()) <= MAX_KEY for key in found)
        again = library.ingest(str(folder))
        assert (again.done, again.dead) == (0, 0)
