"""Valid and damaged model packs."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from holdfast.pipelines.rag.embed.granite_weights import MAGIC, ModelPack, ModelPackError
from tests.fuzz.targets.services import _pack


def packed(folder: Path, content: bytes) -> ModelPack:
    path = folder / "a.pack"
    path.write_bytes(content)
    return ModelPack(path, sha256=hashlib.sha256(content).hexdigest())


def test_a_pack_is_read(tmp_path: Path) -> None:
    pack = packed(tmp_path, _pack())
    assert pack.tensor("l0.qkv.w").shape == (12, 4)
    assert pack.tensor("word_emb").shape == (2, 4)


@pytest.mark.parametrize(
    "content",
    [b"", MAGIC, MAGIC + b"\xff" * 8, _pack()[:-1], _pack(format=2), _pack(tokenizer_len=-1), _pack(tensors=7)],
)
def test_a_damaged_pack_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ModelPackError, match=r"a\.pack"):
        packed(tmp_path, content)


def test_a_missing_or_truncated_tensor_is_refused(tmp_path: Path) -> None:
    pack = packed(tmp_path, _pack().replace(b'"shape":[4],', b'"shape":[9],', 1))
    with pytest.raises(ModelPackError, match="no tensor 'nothing'"):
        pack.tensor("nothing")
    lying = packed(tmp_path, _pack().replace(b'"shape":[2,4]', b'"shape":[2,9]'))
    with pytest.raises(ModelPackError, match=r"'word_emb' of the model pack .* is damaged"):
        lying.tensor("word_emb")
