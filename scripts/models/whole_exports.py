"""Models written by the exporters of scikit-learn and PyTorch."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
import torch
from onnx import ModelProto, TensorProto
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import FloatTensorType, Int64TensorType
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, RidgeClassifier
from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures
from sklearn.tree import DecisionTreeClassifier
from torch import Tensor, nn

from models.cases import Case, ir_version
from models.sketch import FLOAT_TOLERANCE, rng, uniform, whole_case
from reference.tensors import array_tensor

SKL_OPSETS = {"": 15, "ai.onnx.ml": 2}
SKL_COLUMNS = 4
# One unit in the last place of FLOAT16, where a sum's last FLOAT bit can tip the rounding.
HALF_TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}


def export_cases() -> Iterator[Case]:
    yield from sklearn_cases()
    yield from torch_cases()


def estimators() -> dict[str, tuple[str, BaseEstimator]]:
    """What reaches Cast in the exports: whole-number input and class labels."""
    return {
        "bernoulli_nb": ("int64", BernoulliNB()),
        "multinomial_nb": ("int64", MultinomialNB()),
        "gaussian_nb": ("float", GaussianNB()),
        "kmeans": ("int64", KMeans(3, n_init=2, random_state=0)),
        "mlp": ("float", MLPClassifier((6,), max_iter=50, random_state=0)),
        "ridge_pipeline": ("int64", make_pipeline(MinMaxScaler(), RidgeClassifier())),
        "forest_pipeline": ("int64", make_pipeline(MinMaxScaler(), small_forest())),
        "pca_tree": ("int64", make_pipeline(PCA(2), small_tree())),
        "polynomial": ("int64", make_pipeline(PolynomialFeatures(2), LinearRegression())),
    }


def small_forest() -> RandomForestClassifier:
    return RandomForestClassifier(5, max_depth=3, random_state=0)


def small_tree() -> DecisionTreeClassifier:
    return DecisionTreeClassifier(max_depth=3, random_state=0)


def sklearn_cases() -> Iterator[Case]:
    samples = rng(80).integers(0, 10, (60, SKL_COLUMNS))
    labels = (samples[:, 0] + samples[:, 1] > 9).astype(np.int64) + (samples[:, 2] > 6)
    for name, (dtype, estimator) in estimators().items():
        yield sklearn_case(name, dtype, estimator, samples, labels)


def sklearn_case(
    name: str, dtype: str, estimator: BaseEstimator, samples: np.ndarray, labels: np.ndarray
) -> Case:
    with warnings.catch_warnings():
        # A few rounds of training are enough here, whether or not they converge.
        warnings.simplefilter("ignore")
        estimator.fit(samples.astype(np.float32), labels)
    tensor_type = Int64TensorType if dtype == "int64" else FloatTensorType
    classifies = hasattr(estimator, "classes_")
    model = convert_sklearn(
        estimator,
        f"skl_{name}",
        [("x", tensor_type([None, SKL_COLUMNS]))],
        target_opset=SKL_OPSETS,
        options={id(estimator): {"zipmap": False}} if classifies else None,
    )
    model.ir_version = ir_version(SKL_OPSETS[""])
    tidy(model)
    rows = samples[:6].astype(np.int64 if dtype == "int64" else np.float32)
    return whole_case(
        f"skl_{name}",
        f"scikit-learn's {pipeline_name(estimator)} on {dtype} input.",
        model,
        [array_tensor("x", rows)],
        tolerance=FLOAT_TOLERANCE,
        features=["scikit-learn", *cast_feature(model), *(["INT64"] if classifies else [])],
    )


def pipeline_name(estimator: BaseEstimator) -> str:
    steps = getattr(estimator, "steps", [("", estimator)])
    return " and ".join(type(step).__name__ for _, step in steps)


def cast_feature(model: ModelProto) -> list[str]:
    return ["Cast"] if any(node.op_type == "Cast" for node in model.graph.node) else []


class AttentionBlock(nn.Module):
    """A transformer block with a padding mask made from lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(20, 8), nn.Embedding(16, 8)
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))
        self.out, self.norm, self.head = nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 5)

    def forward(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        count, time = ids.shape
        keep = torch.arange(time)[None, :] < lengths[:, None]
        mask = keep.to(torch.int64)
        positions = ((torch.cumsum(mask, 1) - 1) * mask).clamp(min=0)
        x = self.words(ids.to(torch.int64)) + self.places(positions)
        h = self.norm(x)
        q, k, v = (
            part(h).view(count, time, 2, 4).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        hidden = (1.0 - keep[:, None, None, :].to(x.dtype)) * -1e4
        mixed = torch.softmax(q @ k.transpose(-1, -2) / 2.0 + hidden, -1) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(count, time, 8))
        pooled = (x * keep.to(x.dtype)[:, :, None]).sum(1) / lengths.to(x.dtype)[:, None]
        logits = self.head(pooled)
        return logits, logits.argmax(-1).to(torch.int32)


class ByteImageNet(nn.Module):
    """UINT8 pixels, a crop by half the image's size, and activations kept in FLOAT16."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 6, 3, padding=1)
        self.head = nn.Linear(6, 4)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        x = torch.relu(self.first(image.to(torch.float32) / 255.0))
        stored = x[:, :, : x.shape[2] // 2].half()
        x = torch.relu(self.second(stored.float()))
        logits = self.head(x.mean((2, 3)))
        return logits, (logits > 0).to(torch.uint8)


class HourOfDay(nn.Module):
    """Seconds since 1970, some beyond 32 bits, to an embedding of the hour."""

    def __init__(self) -> None:
        super().__init__()
        self.hours = nn.Embedding(24, 4)

    def forward(self, seconds: Tensor) -> tuple[Tensor, Tensor]:
        hours = (seconds.to(torch.float64) / 3600.0).floor().to(torch.int64)
        return self.hours(hours % 24), hours * 3_600_000


@dataclass(frozen=True)
class Export:
    name: str
    about: str
    module: nn.Module
    feeds: dict[str, np.ndarray]
    outputs: tuple[str, ...]
    tolerance: dict[str, float] | None


def torch_cases() -> Iterator[Case]:
    ids = np.array([[1, 2, 3, 4, 0, 0], [5, 6, 7, 8, 9, 10]], np.int32)
    attention: dict[str, np.ndarray] = {"ids": ids, "lengths": np.array([4, 6], np.int64)}
    image = {"image": rng(81).integers(0, 256, (2, 3, 8, 6)).astype(np.uint8)}
    seconds = {"seconds": np.array([0, 1_700_000_000, 4_294_967_296, 9_000_000_000], np.int64)}
    exports = (
        Export("attention", "a masked attention block", AttentionBlock(), attention,
               ("logits", "label"), FLOAT_TOLERANCE),
        Export("byte_image", "a convolution over bytes", ByteImageNet(), image,
               ("logits", "flags"), HALF_TOLERANCE),
        Export("hour_of_day", "64-bit time arithmetic", HourOfDay(), seconds,
               ("embedded", "millis"), None),
    )  # fmt: skip
    for export in exports:
        set_weights(export.module.eval())
        yield torch_case(export, "TorchScript", export_script(export))
        yield torch_case(export, "dynamo", export_dynamo(export))


def torch_case(export: Export, exporter: str, model: ModelProto) -> Case:
    tidy(model)
    return whole_case(
        f"torch_{export.name}_{exporter.lower()}",
        f"PyTorch's {exporter} export of {export.about}, with symbolic axes.",
        model,
        [array_tensor(name, value) for name, value in export.feeds.items()],
        tolerance=export.tolerance,
        features=["PyTorch", "symbolic_batch", "graph_output", *cast_feature(model)],
    )


def set_weights(module: nn.Module) -> None:
    """Weights of our own, so that they do not depend on PyTorch's random numbers."""
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter.copy_(torch.from_numpy(uniform(90 + i, *parameter.shape) / 4))


def dynamic_axes(export: Export) -> dict[str, dict[int, str]]:
    time = {"ids": {1: "time"}}
    return {name: {0: "batch", **time.get(name, {})} for name in export.feeds}


def example(export: Export) -> tuple[Tensor, ...]:
    return tuple(torch.from_numpy(value) for value in export.feeds.values())


def export_script(export: Export) -> ModelProto:
    """The exporter most ONNX files in the wild come from."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # It warns that it is deprecated, which is the reason to have it here.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            export.module,
            example(export),
            buffer,
            input_names=list(export.feeds),
            output_names=list(export.outputs),
            dynamic_axes=dynamic_axes(export) | {name: {0: "batch"} for name in export.outputs},
            opset_version=14,
            dynamo=False,
        )
    return onnx.load_from_string(buffer.getvalue())


def export_dynamo(export: Export) -> ModelProto:
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            export.module,
            example(export),
            input_names=list(export.feeds),
            output_names=list(export.outputs),
            dynamic_shapes=tuple(dynamic_axes(export).values()),
            opset_version=18,
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    return program.model_proto


def tidy(model: ModelProto) -> None:
    """Drops the exporting machine's file names and stack traces, and the order of Python sets."""
    model.opset_import.sort(key=lambda item: item.domain)
    model.producer_version = model.producer_version.split("+")[0]
    graph = model.graph
    initializers: list[TensorProto] = list(graph.initializer)
    values = [*graph.input, *graph.output, *graph.value_info]
    for item in (model, graph, *graph.node, *values, *initializers):
        item.ClearField("metadata_props")
        item.ClearField("doc_string")
