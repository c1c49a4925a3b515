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


def renamed(names, path):
    """A model each of whose values is the one before it, negated."""
    import onnx
    from onnx import helper

    nodes = [helper.make_node("Neg", [a], [b]) for a, b in zip(["x", *names], names)]

    def value(name):
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2])

    graph = helper.make_graph(nodes, "g", [value("x")], [value(names[-1])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, path)
    return path


def test_values_may_have_the_names_of_keywords(tmp_path):
    names = ["file", "allow_pickle", "/layer/add_0", "args"]
    model, to = renamed(names, tmp_path / "m.onnx"), tmp_path / "values.npz"
    assert onnxruntime.dump(model, {"x": np.float32([1, 2])}, to) == [*names[-1:], *names[:-1]]
    with np.load(to) as values:
        assert sorted(values) == sorted(names)
        np.testing.assert_array_equal(values["file"], np.float32([-1, -2]))


@pytest.mark.parametrize("name", ["../../z", "a/../../z", "..\\z", "z" * 65_531])
def test_values_whose_names_no_archive_holds(name, tmp_path):
    model, to = renamed(["a", name], tmp_path / "m.onnx"), tmp_path / "values.npz"
    with pytest.raises(onnx_cast.ModelError, match="npz"):
        onnxruntime.dump(model, {"x": np.float32([1, 2])}, to)
    assert not to.exists()
