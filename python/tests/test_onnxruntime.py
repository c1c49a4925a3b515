"""ONNX Runtime's inner tensors, where it is installed."""

import numpy as np
import pytest

import onnx_cast

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_cast import onnxruntime

X = np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)


def test_every_value_is_there(whole, tmp_path):
    model = whole / "rms_norm_FLOAT" / "model.onnx"
    names = onnxruntime.dump(model, {"x": X}, tmp_path / "values.npz")
    assert {"scores", "squares", "norm"} <= set(names)
    with np.load(tmp_path / "values.npz") as values:
        assert set(values) == set(names)
        np.testing.assert_allclose(values["squares"], values["hidden"] ** 2, rtol=1e-6)


def test_it_stands_in_for_a_reference(whole, tmp_path):
    outputs = onnxruntime.inner_tensors(whole / "rms_norm_FLOAT" / "model.onnx", {"x": X})
    scores = {"scores": outputs["scores"]}
    assert onnx_cast.compare(
        scores, whole / "rms_norm_FLOAT16_fixed", {"x": X}, rtol=1e-2, atol=1e-2
    ).passed


def test_names_that_are_not_inputs(whole):
    with pytest.raises(onnx_cast.InputError, match="`y`"):
        onnxruntime.inner_tensors(whole / "rms_norm_FLOAT" / "model.onnx", {"y": X})
