"""Write `src/backread/models/minilm.onnx`: the arithmetic of all-MiniLM-L6-v2, without its weights.

The graph is BERT (6 layers, 12 heads, hidden size 384, exact gelu) with mean pooling over the attention mask and L2
normalisation. Its initialisers are external data: byte ranges of the official `model.safetensors`, so the weights stay
the publisher's file, checked by its hash, and no converted copy exists. It is built node by node; torch is not needed.

    python -m venv /tmp/onnx-venv && /tmp/onnx-venv/bin/pip install "onnx>=1.17" numpy
    /tmp/onnx-venv/bin/python scripts/build_minilm_graph.py path/to/model.safetensors

The output is the same bytes every time for one version of `onnx`. `tests/contract/test_embedders.py` compares it with a
numpy forward pass. Changing the arithmetic here means raising `GRAPH_VERSION` in `backread.models.onnx`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

LAYERS = 6
HEADS = 12
HIDDEN = 384
HEAD_DIM = HIDDEN // HEADS
EPSILON = 1e-12
OPSET = 20  # the first with Gelu; onnxruntime >= 1.17
IR_VERSION = 9
WEIGHTS = "model.safetensors"
OUTPUT = Path(__file__).resolve().parent.parent / "src" / "backread" / "models" / "minilm.onnx"


class Graph:
    """Nodes and initialisers under construction."""

    def __init__(self, weights: Path) -> None:
        self.onnx: Any = importlib.import_module("onnx")
        self.nodes: list[Any] = []
        self.initialisers: dict[str, Any] = {}
        with weights.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            self.header: dict[str, Any] = json.loads(file.read(length))
        self.base = 8 + length

    def weight(self, name: str) -> str:
        """The name of a tensor of the safetensors file, declared as external data."""
        if name not in self.initialisers:
            entry = self.header[name]
            if entry["dtype"] != "F32":
                raise SystemExit(f"{name} is {entry['dtype']}, expected F32")
            begin, end = entry["data_offsets"]
            tensor = self.onnx.TensorProto(name=name, data_type=self.onnx.TensorProto.FLOAT, dims=entry["shape"])
            tensor.data_location = self.onnx.TensorProto.EXTERNAL
            for key, value in (("location", WEIGHTS), ("offset", self.base + begin), ("length", end - begin)):
                tensor.external_data.add(key=key, value=str(value))
            self.initialisers[name] = tensor
        return name

    def constant(self, name: str, value: float | Sequence[int]) -> str:
        """A small constant: a float32 scalar or an int64 vector."""
        array = np.float32(value) if isinstance(value, float) else np.array(value, np.int64)
        self.initialisers.setdefault(name, self.onnx.numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:  # noqa: ANN401
        """Add one node; returns its output's name."""
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [output], name=output, **attributes))
        return output

    def linear(self, x: str, name: str, output: str) -> str:
        """Rows x to x @ W.T + b; torch keeps W as (out, in), which is what Gemm's transB wants."""
        return self.node("Gemm", [x, self.weight(f"{name}.weight"), self.weight(f"{name}.bias")], output, transB=1)

    def norm(self, x: str, name: str, output: str) -> str:
        """LayerNorm over the last axis."""
        scale, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.node("LayerNormalization", [x, scale, bias], output, axis=-1, epsilon=EPSILON)


def embeddings(graph: Graph) -> str:
    """Rows (n * tokens, 384): word + token type 0 + position, normalised."""
    words = graph.node("Gather", [graph.weight("embeddings.word_embeddings.weight"), "input_ids"], "words")
    graph.node("Shape", ["input_ids"], "tokens", start=1, end=2)
    zero, one, axis = graph.constant("zero", [0]), graph.constant("one", [1]), graph.constant("axis0", [0])
    types = graph.node("Slice", [graph.weight("embeddings.token_type_embeddings.weight"), zero, one, axis], "type0")
    places = graph.node(
        "Slice", [graph.weight("embeddings.position_embeddings.weight"), zero, "tokens", axis], "places"
    )
    graph.node("Add", [words, graph.node("Add", [places, types], "offsets")], "sum")
    rows = graph.node("Reshape", ["sum", graph.constant("rows_shape", [-1, HIDDEN])], "rows")
    return graph.norm(rows, "embeddings.LayerNorm", "embedded")


def attention_bias(graph: Graph) -> None:
    """`bias` (n, 1, 1, tokens): 0 for real tokens, a large negative number for padding."""
    graph.node("Cast", ["attention_mask"], "mask", to=graph.onnx.TensorProto.FLOAT)
    graph.node("Sub", [graph.constant("one_f", 1.0), "mask"], "padding")
    graph.node("Mul", ["padding", graph.constant("minus_large", -1e9)], "masked")
    graph.node("Unsqueeze", ["masked", graph.constant("axes12", [1, 2])], "bias")


def heads(graph: Graph, x: str, name: str, output: str, order: Sequence[int]) -> str:
    """A linear map of the rows, split into heads: (n, heads, …) in the given order of axes."""
    flat = graph.linear(x, name, f"{output}.flat")
    split = graph.node("Reshape", [flat, "split_shape"], f"{output}.split")
    return graph.node("Transpose", [split], output, perm=list(order))


def layer(graph: Graph, x: str, index: int) -> str:
    """One transformer layer: attention and feed-forward, each with its residual and norm. Rows in, rows out."""
    torch_name, out = f"encoder.layer.{index}", f"l{index}"
    query = heads(graph, x, f"{torch_name}.attention.self.query", f"{out}.q", (0, 2, 1, 3))
    key = heads(graph, x, f"{torch_name}.attention.self.key", f"{out}.k", (0, 2, 3, 1))
    value = heads(graph, x, f"{torch_name}.attention.self.value", f"{out}.v", (0, 2, 1, 3))
    scores = graph.node("MatMul", [query, key], f"{out}.scores")
    scaled = graph.node("Mul", [scores, graph.constant("scale", float(HEAD_DIM**-0.5))], f"{out}.scaled")
    biased = graph.node("Add", [scaled, "bias"], f"{out}.biased")
    weights = graph.node("Softmax", [biased], f"{out}.softmax", axis=-1)
    mixed = graph.node("MatMul", [weights, value], f"{out}.mixed")
    joined = graph.node("Transpose", [mixed], f"{out}.joined", perm=[0, 2, 1, 3])
    context = graph.node("Reshape", [joined, "rows_shape"], f"{out}.context")
    projected = graph.linear(context, f"{torch_name}.attention.output.dense", f"{out}.projected")
    attended = graph.node("Add", [projected, x], f"{out}.attended")
    attended = graph.norm(attended, f"{torch_name}.attention.output.LayerNorm", f"{out}.attended_norm")
    wide = graph.linear(attended, f"{torch_name}.intermediate.dense", f"{out}.wide")
    active = graph.node("Gelu", [wide], f"{out}.gelu", approximate="none")
    narrow = graph.linear(active, f"{torch_name}.output.dense", f"{out}.narrow")
    added = graph.node("Add", [narrow, attended], f"{out}.added")
    return graph.norm(added, f"{torch_name}.output.LayerNorm", f"{out}.out")


def pooling(graph: Graph, x: str) -> None:
    """`sentence_embedding` (n, 384): the mean over real tokens, at unit length."""
    graph.node("Reshape", [x, "tokens_shape"], "token_embeddings")
    column = graph.node("Unsqueeze", ["mask", graph.constant("axes2", [2])], "mask_column")
    kept = graph.node("Mul", ["token_embeddings", column], "kept")
    total = graph.node("ReduceSum", [kept, graph.constant("axes1", [1])], "total", keepdims=0)
    count = graph.node("ReduceSum", ["mask", "axes1"], "count", keepdims=1)
    mean = graph.node("Div", [total, count], "mean")
    graph.node("ReduceL2", [mean, "axes1"], "length", keepdims=1)
    safe = graph.node("Max", ["length", graph.constant("tiny", 1e-12)], "safe_length")
    graph.node("Div", [mean, safe], "sentence_embedding")


def build(weights: Path) -> bytes:
    """The serialised graph for the tensors of `weights`."""
    graph = Graph(weights)
    onnx = graph.onnx
    graph.node("Shape", ["input_ids"], "ids_shape")
    graph.node("Concat", ["ids_shape", graph.constant("hidden", [HIDDEN])], "tokens_shape", axis=0)
    graph.node("Concat", ["ids_shape", graph.constant("head_shape", [HEADS, HEAD_DIM])], "split_shape", axis=0)
    attention_bias(graph)
    x = embeddings(graph)
    for index in range(LAYERS):
        x = layer(graph, x, index)
    pooling(graph, x)
    info = onnx.helper.make_tensor_value_info
    integer, real = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
    inputs = [info(name, integer, ["batch", "tokens"]) for name in ("input_ids", "attention_mask")]
    outputs = [info("sentence_embedding", real, ["batch", HIDDEN])]
    model_graph = onnx.helper.make_graph(graph.nodes, "minilm", inputs, outputs, list(graph.initialisers.values()))
    opsets = [onnx.helper.make_opsetid("", OPSET)]
    model = onnx.helper.make_model(model_graph, opset_imports=opsets, producer_name="backread", ir_version=IR_VERSION)
    return bytes(model.SerializeToString(deterministic=True))


def main() -> None:
    """Build the graph and write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("weights", type=Path, help="model.safetensors of all-MiniLM-L6-v2")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    data = build(arguments.weights)
    arguments.output.write_bytes(data)
    print(f"{arguments.output}: {len(data)} bytes")


if __name__ == "__main__":
    main()
