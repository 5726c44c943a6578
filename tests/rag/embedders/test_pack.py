"""Model packs that are not what they should be."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from holdfast.pipelines.rag.embedders.pack import MAGIC, Pack, PackError
from tests.fuzz.targets.services import _pack


def packed(folder: Path, content: bytes) -> Pack:
    path = folder / "a.pack"
    path.write_bytes(content)
    return Pack(path, sha256=hashlib.sha256(content).hexdigest())


def test_a_pack_is_read(tmp_path: Path) -> None:
    pack = packed(tmp_path, _pack())
    assert pack.tensor("l0.qkv.w").shape == (12, 4)
    assert pack.tensor("word_emb").shape == (2, 4)


@pytest.mark.parametrize(
    "content",
    [b"", MAGIC, MAGIC + b"\xff" * 8, _pack()[:-1], _pack(format=2), _pack(tokenizer_len=-1), _pack(tensors=7)],
)
def test_a_damaged_pack_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(PackError, match=r"a\.pack"):
        packed(tmp_path, content)


def test_a_tensor_that_is_not_there_or_not_whole_is_refused(tmp_path: Path) -> None:
    pack = packed(tmp_path, _pack().replace(b'"shape":[4],', b'"shape":[9],', 1))
    with pytest.raises(PackError, match="no tensor 'nothing'"):
        pack.tensor("nothing")
    lying = packed(tmp_path, _pack().replace(b'"shape":[2,4]', b'"shape":[2,9]'))
    with pytest.raises(PackError, match=r"'word_emb' of the model pack .* is damaged"):
        lying.tensor("word_emb")
