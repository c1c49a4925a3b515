"""`reduce`, of pairs and by functions."""

import numpy as np
import pytest

import onnx_cast


def test_of_a_pair_the_node_is_left_that_overflows(whole, tmp_path):
    case = tmp_path / "case"
    models = (whole / "rms_norm_FLOAT", whole / "rms_norm_FLOAT16")
    result = onnx_cast.reduce(*models, case, rtol=1e-2, atol=1e-2)
    assert result.problem is None and result.cases[0].kind == "overflow"
    assert len(result.cases[0].left) <= 3 and "overflows" in str(result)
    assert sorted(path.name for path in case.iterdir()) == [
        "README.md",
        "model.onnx",
        "reference.onnx",
        "test_data_set_0",
    ]
    compared = onnx_cast.compare(case / "reference.onnx", case / "model.onnx", rtol=1e-2, atol=1e-2)
    assert not compared.passed
    # The reference agrees with itself.
    result = onnx_cast.reduce(models[0], models[0], tmp_path / "other")
    assert result.cases == [] and "nothing to show" in str(result)


def test_a_function_is_a_check(whole, tmp_path):
    seen = []

    def check(model, inputs):
        seen.append((model, inputs))
        assert all(isinstance(array, np.ndarray) for array in inputs.values())
        with open(model, "rb") as file:
            return b"Sqrt" not in file.read()

    result = onnx_cast.reduce(whole / "rms_norm_FLOAT", directory=tmp_path / "case", check=check)
    assert [op for _, op in result.cases[0].left] == ["Sqrt"]
    assert len(seen) > 1 and all(inputs for _, inputs in seen)

    def raises(model, inputs):
        raise AssertionError

    case = tmp_path / "raises"
    assert onnx_cast.reduce(whole / "rms_norm_FLOAT", case, check=raises).cases
    case = tmp_path / "fine"
    assert onnx_cast.reduce(whole / "rms_norm_FLOAT", case, check=lambda *_: None).problem


def test_what_makes_no_sense_is_refused(whole, tmp_path):
    with pytest.raises(onnx_cast.CallError):
        onnx_cast.reduce(whole / "rms_norm_FLOAT", directory=tmp_path)
    with pytest.raises(onnx_cast.CallError):
        onnx_cast.reduce(whole / "rms_norm_FLOAT", whole / "rms_norm_FLOAT16")
