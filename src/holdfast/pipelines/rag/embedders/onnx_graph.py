"""Writes the encoder as an ONNX model, in the protobuf wire format, without the package that is made for that.

The graph takes the summed embeddings of one text, a row for each token, and gives the last hidden state of the first
token. One text at a time needs neither padding nor a mask. In the last layer only the first token is asked for, so only
its row goes through what follows the keys and values.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from holdfast.pipelines.rag.embedders.pack import Arch

if TYPE_CHECKING:
    import numpy as np

FLOAT, INT64 = 1, 7
IR_VERSION, OPSET = 8, 17
CONTRIB = "com.microsoft"
"""The runtime's own operators: attention and activation in one pass each."""

Attribute = int | float


def encoder(arch: Arch, tensor: Callable[[str], np.ndarray]) -> bytes:
    """Gives the model, ready for a session: input `embedded` (tokens x hidden), output `first` (1 x hidden)."""
    return Writer(arch, tensor).model()


class Writer:
    """Writes nodes and initializers as they come; each method gives the name of what it computes."""

    def __init__(self, arch: Arch, tensor: Callable[[str], np.ndarray]) -> None:
        self._arch = arch
        self._tensor = tensor
        self._written: list[bytes] = []
        self._named: set[str] = set()
        self._count = 0

    def model(self) -> bytes:
        """Gives the whole model."""
        arch = self._arch
        self._numbers("thirds", [arch.hidden] * 3)
        self._numbers("halves", [arch.hidden] * 2)
        self._numbers("as_batch", [1, -1, arch.hidden])
        self._numbers("as_rows", [-1, arch.hidden])
        self._numbers("zero", [0])
        hidden = self._norm("embedded", "emb_ln")
        for layer in range(arch.layers - 1):
            query, key, value = self._node("Split", self._linear(hidden, f"l{layer}.qkv"), "thirds", outputs=3, axis=1)
            hidden = self._rest(layer, hidden, query, key, value)
        hidden = self._last(arch.layers - 1, hidden)
        self._node("Identity", hidden, names=["first"])
        graph = [*self._written, _text(2, "encoder")]
        graph += [_value(11, "embedded", ["tokens", arch.hidden]), _value(12, "first", [1, arch.hidden])]
        opsets = [_field(8, _text(1, domain) + _integer(2, version)) for domain, version in (("", OPSET), (CONTRIB, 1))]
        return b"".join([_integer(1, IR_VERSION), _message(7, graph), *opsets])

    def _last(self, layer: int, hidden: str) -> str:
        name, width = f"l{layer}.qkv", self._arch.hidden
        weights, bias = self._tensor(f"{name}.w"), self._tensor(f"{name}.b")
        for part, rows in (("q", slice(0, width)), ("kv", slice(width, None))):
            self._floats(f"{name}.{part}.w", weights[rows])
            self._floats(f"{name}.{part}.b", bias[rows])
        (first,) = self._node("Gather", hidden, "zero", axis=0)
        query = self._linear(first, f"{name}.q")
        key, value = self._node("Split", self._linear(hidden, f"{name}.kv"), "halves", outputs=2, axis=1)
        return self._rest(layer, first, query, key, value)

    def _rest(self, layer: int, hidden: str, query: str, key: str, value: str) -> str:
        """What a layer does once it has queries, keys and values: attend, add and norm, think, add and norm."""
        batched = [self._node("Reshape", one, "as_batch")[0] for one in (query, key, value)]
        seen = self._node("MultiHeadAttention", *batched, domain=CONTRIB, num_heads=self._arch.heads)
        attended = self._linear(self._node("Reshape", seen[0], "as_rows"), f"l{layer}.ao")
        hidden = self._norm(self._node("Add", hidden, attended), f"l{layer}.aln")
        thought = self._node("Gelu", self._linear(hidden, f"l{layer}.f1"), domain=CONTRIB)
        return self._norm(self._node("Add", hidden, self._linear(thought, f"l{layer}.f2")), f"l{layer}.fln")

    def _linear(self, given: str | list[str], name: str) -> str:
        """Rows times a matrix of outputs x inputs, plus a bias."""
        return self._node("Gemm", given, *self._weights(name), transB=1)[0]

    def _norm(self, given: str | list[str], name: str) -> str:
        return self._node("LayerNormalization", given, *self._weights(name), epsilon=self._arch.layer_norm_eps)[0]

    def _weights(self, name: str) -> Iterator[str]:
        for full in (f"{name}.w", f"{name}.b"):
            if full not in self._named:
                self._floats(full, self._tensor(full))
            yield full

    def _node(
        self,
        kind: str,
        *given: str | list[str],
        outputs: int = 1,
        names: list[str] | None = None,
        domain: str = "",
        **attributes: Attribute,
    ) -> list[str]:
        self._count += 1
        names = names or [f"{kind}_{self._count}_{number}" for number in range(outputs)]
        inputs = [one if isinstance(one, str) else one[0] for one in given]
        parts = [*(_text(1, one) for one in inputs), *(_text(2, one) for one in names), _text(4, kind)]
        parts += [_attribute(name, value) for name, value in attributes.items()]
        self._written.append(_message(1, [*parts, _text(7, domain)]))
        return names

    def _floats(self, name: str, values: np.ndarray) -> None:
        self._initializer(name, FLOAT, values.shape, values.astype("<f4", copy=False).tobytes())

    def _numbers(self, name: str, values: list[int]) -> None:
        self._initializer(name, INT64, (len(values),), struct.pack(f"<{len(values)}q", *values))

    def _initializer(self, name: str, kind: int, shape: tuple[int, ...], raw: bytes) -> None:
        self._named.add(name)
        dims = [_integer(1, size) for size in shape]
        self._written.append(_message(5, [*dims, _integer(2, kind), _text(8, name), _field(9, raw)]))


def _value(field: int, name: str, shape: list[str | int]) -> bytes:
    dims = [_field(1, _text(2, size) if isinstance(size, str) else _integer(1, size)) for size in shape]
    tensor = _integer(1, FLOAT) + _message(2, dims)
    return _field(field, _text(1, name) + _field(2, _field(1, tensor)))


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, float):
        return _field(5, _text(1, name) + _key(2, 5) + struct.pack("<f", value) + _integer(20, 1))
    return _field(5, _text(1, name) + _integer(3, value) + _integer(20, 2))


def _text(field: int, value: str) -> bytes:
    return _field(field, value.encode())


def _message(field: int, parts: list[bytes]) -> bytes:
    return b"".join([_key(field, 2), _varint(sum(map(len, parts))), *parts])


def _field(field: int, value: bytes) -> bytes:
    return b"".join((_key(field, 2), _varint(len(value)), value))


def _integer(field: int, value: int) -> bytes:
    return _key(field, 0) + _varint(value)


def _key(field: int, wire: int) -> bytes:
    return _varint(field << 3 | wire)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
