"""The commands as functions, on real models through the program that was installed."""

import html
import json
import math
import time

import ml_dtypes
import numpy as np
import pytest

import onnx_cast
from onnx_cast import _arrays

TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


@pytest.fixture
def x():
    return np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)


def test_compare_names_the_culprit(whole, tmp_path):
    page = tmp_path / "page.html"
    result = onnx_cast.compare(
        whole / "rms_norm_FLOAT", whole / "rms_norm_FLOAT16", report=page, **TOLERANCE
    )
    assert not result.passed
    assert result.culprit == "Cast_sum_half"
    assert result.first_damage.culprit.outcomes["overflowed"] == 2
    assert result.first_damage.node == "Sqrt_norm"
    # No list that has not been run.
    assert "onnx_cast.keep(" in result.remedy and "node_block_list=[" not in result.summary()
    assert str(result).startswith("FAIL culprit: `Cast_sum_half` FLOAT to FLOAT16: 2 overflowed")
    assert "<table>" in result._repr_html_() and "Cast_sum_half" in result._repr_html_()
    assert result.outputs[0].name == "scores" and result.outputs[0].mismatches == 8
    assert page.read_text().startswith("<!doctype html")
    with pytest.raises(onnx_cast.ToleranceError, match="Cast_sum_half") as raised:
        result.check()
    assert raised.value.kind == "tolerance"


def test_a_failed_check_says_the_verdict(whole):
    result = onnx_cast.compare(whole / "rms_norm_FLOAT", whole / "rms_norm_FLOAT16")
    with pytest.raises(onnx_cast.ToleranceError, match="FLOAT16: imprecise: its types explain"):
        result.check()


def test_one_node_is_no_nodes(whole):
    kept = onnx_cast.keep(whole / "skl_mlp", "int8", sqnr=40)
    assert len(kept.nodes) == 1 and "as INT8: keep 1 node in FLOAT: " in str(kept)


def test_compare_passes_what_was_mended(whole):
    result = onnx_cast.compare(
        whole / "rms_norm_FLOAT", whole / "rms_norm_FLOAT16_fixed", **TOLERANCE
    )
    assert result.check().passed
    assert result.culprit is None and result.remedy is None and result.summary() == ""
    assert str(result).startswith("PASS ") and result.inputs.origin == "given"


def test_a_pass_on_random_inputs_warns(whole):
    reference = whole / "rms_norm_FLOAT" / "model.onnx"
    fixed = whole / "rms_norm_FLOAT16_fixed" / "model.onnx"
    with pytest.warns(onnx_cast.OnnxCastWarning, match="the inputs are random"):
        result = onnx_cast.compare(reference, fixed, random=True, search=0, **TOLERANCE)
    assert result.passed and result.inputs.are_random and result.inputs.seeds == [0, 1, 2, 3, 4]
    assert "warning: the inputs are random" in str(result)
    with pytest.warns(onnx_cast.OnnxCastWarning):
        assert onnx_cast.audit(fixed, random=True).warnings
    # Those beside the file are taken as those of the folder are; chosen ones find the fault as well.
    broken = whole / "rms_norm_FLOAT16" / "model.onnx"
    for random in (False, True):
        assert not onnx_cast.compare(reference, broken, random=random, **TOLERANCE).passed


def test_models_may_be_objects_or_bytes(whole, x, tmp_path):
    onnx = pytest.importorskip("onnx")
    files = [whole / name / "model.onnx" for name in ("rms_norm_FLOAT", "rms_norm_FLOAT16")]
    proto, data = onnx.load(files[0]), files[1].read_bytes()
    result = onnx_cast.compare(proto, data, {"x": x * 3}, **TOLERANCE)
    assert not result.passed and result.culprit == "Cast_sum_half"
    assert result.reference == "reference.onnx" and "/" not in str(result.json["converted"])
    assert onnx_cast.keep(proto, "float16", {"x": x * 3}).to == "FLOAT16"
    assert not onnx_cast.audit(data, {"x": x * 3}, baseline=proto).passed
    assert set(onnx_cast.run(proto, {"x": x})) == {"scores"}
    assert onnx_cast.fix(data, tmp_path / "fixed.onnx").changes == []
    assert onnx_cast.record(data, tmp_path / "goldens", {"x": x})
    line = refused_line(lambda: onnx_cast.audit(b"\x08\x09 no model"))
    assert line.startswith("model.onnx")


def refused_line(call):
    with pytest.raises(onnx_cast.ModelError) as raised:
        call()
    return str(raised.value)


def test_every_option_of_the_shell(whole, x, tmp_path):
    pair = whole / "rms_norm_FLOAT", whole / "rms_norm_FLOAT16_fixed"
    reports = {name: tmp_path / f"a.{name}" for name in ("markdown", "junit")}
    result = onnx_cast.compare(
        *pair, {"x": x}, per_output={"scores": {"rtol": 1e-2, "atol": 1e-2}}, top=1, **reports
    )
    assert result.passed and all(path.stat().st_size > 50 for path in reports.values())
    with pytest.warns(onnx_cast.OnnxCastWarning):
        ranged = onnx_cast.compare(
            *[folder / "model.onnx" for folder in pair], ranges={"x": (0, 1)}, cosine=0.99
        )
    assert ranged.inputs.origin == "random"
    kept = onnx_cast.keep(pair[0], "fp16", sqnr=40, fewest=True, progress=False)
    assert kept.confirmed and kept.runs > 0 and kept.problem is None
    assert str(kept).splitlines()[0].endswith("node_block_list=['ReduceSum_sum', 'Sqrt_norm']")


@pytest.mark.parametrize("limit", [{"cosine": 0.9}, {"sqnr": 40}])
def test_why_an_output_fails_is_said_whatever_it_is_judged_by(whole, limit):
    result = onnx_cast.compare(whole / "rms_norm_FLOAT", whole / "rms_norm_FLOAT16", **limit)
    assert not result.passed
    assert "None" not in str(result) and "is wanted" in str(result)


def test_long_calls_tell_how_long(capsys):
    from onnx_cast import _program

    with _program._progress("keep", True):
        time.sleep(3.2)
    assert "onnx-cast keep: 2 s" in capsys.readouterr().err


def test_compare_takes_several_sets(whole, x):
    sets = [{"x": x}, {"x": x * 2}]
    result = onnx_cast.compare(
        whole / "rms_norm_FLOAT", whole / "rms_norm_FLOAT16_fixed", sets, **TOLERANCE
    )
    assert result.sets == 2


def test_compare_takes_values_of_another_runtime(whole, x):
    scores = onnx_cast.run(whole / "rms_norm_FLOAT" / "model.onnx", {"x": x})
    mended = whole / "rms_norm_FLOAT16_fixed"
    assert onnx_cast.compare(scores, mended, {"x": x}, **TOLERANCE).passed
    wrong = {"scores": scores["scores"] + 1}
    assert not onnx_cast.compare(wrong, mended, {"x": x}, **TOLERANCE).passed


def test_compare_names_nodes_of_saved_values(whole):
    model = whole / "rms_norm_FLOAT" / "model.onnx"
    good = {"squares": np.float32([1, 2]), "scores": np.float32([3, 4])}
    bad = {**good, "squares": np.float32([1, 9])}
    compared = onnx_cast.compare(good, bad, graph=model)
    assert not compared.passed
    assert compared.culprit == "Mul_squares"


def test_audit_counts(whole):
    audited = onnx_cast.audit(whole / "rms_norm_FLOAT16")
    assert not audited.passed
    assert audited.casts[0].node == "Cast_sum_half" and audited.casts[0].outcomes["overflowed"] == 2
    with pytest.raises(onnx_cast.ToleranceError, match="Cast_sum_half"):
        audited.check()
    assert onnx_cast.audit(whole / "rms_norm_FLOAT16", allow=["overflowed=2"]).passed


def test_run_gives_every_type(whole):
    outputs = onnx_cast.run(whole / "castlike_small_types" / "model.onnx")
    assert {array.dtype.name for array in outputs.values()} >= {"bfloat16", "float8_e5m2", "int4"}


def test_record_adds_sets(whole, x, tmp_path):
    model, folder = whole / "rms_norm_FLOAT" / "model.onnx", tmp_path / "goldens"
    first = onnx_cast.record(model, folder, {"x": x})
    assert [path.rsplit("/", 1)[-1] for path in first] == ["test_data_set_0"]
    assert len(onnx_cast.record(model, folder, sets=2)) == 2
    np.testing.assert_array_equal(_arrays.read_all(first[0], "input")["x"], x)


@pytest.mark.parametrize("names", [["-x", "--to=b"], ["a=b", "a"]])
@pytest.mark.parametrize("sets", [1, 2])
def test_inputs_may_have_any_names(names, sets, tmp_path, monkeypatch):
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper

    def value(name):
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2])

    node = helper.make_node("Sub", names, ["y"])
    graph = helper.make_graph([node], "g", [value(name) for name in names], [value("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, tmp_path / "m.onnx")
    # So does the path of the files that the arrays go through.
    (tmp_path / "t=1").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "t=1"))
    arrays = dict(zip(names, np.float32([[5, 7], [1, 2]])))
    compared = onnx_cast.compare(tmp_path / "m.onnx", tmp_path / "m.onnx", [arrays] * sets)
    assert compared.passed and compared.sets == sets
    outputs = onnx_cast.run(tmp_path / "m.onnx", arrays)
    np.testing.assert_array_equal(outputs["y"], np.float32([4, 5]))


def some_of(row):
    if row.name == "bool":
        return np.array([[True, False, True]])
    dtype = _arrays.dtype_of(row, "x")
    signed = row.name.startswith(("int", "float", "bfloat")) and row.name != "float8_e8m0fnu"
    return np.array(
        [[1, -2 if signed and row.bits > 2 else 1, 1], [1, 2 if row.bits > 2 else 0, 1]]
    ).astype(dtype)


@pytest.mark.parametrize("row", _arrays.TYPES, ids=lambda row: row.name)
def test_tensor_files_are_those_of_onnx(row):
    onnx = pytest.importorskip("onnx")
    values = some_of(row)
    proto = onnx.TensorProto.FromString(_arrays.encoded("x", values))
    assert (
        proto.data_type == row.number
        and list(proto.dims) == list(values.shape)
        and proto.name == "x"
    )
    assert proto.raw_data == onnx.numpy_helper.from_array(values).raw_data
    name, read = _arrays.decoded(onnx.numpy_helper.from_array(values, "y").SerializeToString())
    assert name == "y" and read.dtype == values.dtype
    np.testing.assert_array_equal(read.view(np.uint8), values.view(np.uint8))


def test_strings_go_both_ways():
    name, read = _arrays.decoded(_arrays.encoded("s", np.array([["a", "ä"], ["", "x\n"]])))
    assert name == "s" and read.tolist() == [["a", "ä"], ["", "x\n"]]


@pytest.mark.parametrize("removed", range(1, 12))
def test_broken_tensor_files_are_refused(removed):
    whole_file = _arrays.encoded("x", np.ones(3, ml_dtypes.bfloat16))
    with pytest.raises(onnx_cast.InputError):
        _arrays.decoded(whole_file[:-removed])


def test_keep_ranks_quantisers(whole):
    kept = onnx_cast.keep(whole / "skl_mlp", "int8", sqnr=60)
    assert kept.passed and kept.nodes_to_exclude and not kept.quantized
    worst = [min(row.sqnr.values()) for row in kept.quantizers]
    assert worst == sorted(worst) and "nodes_to_exclude=[" in kept.formats["onnxruntime"]


def test_kept_and_fixed_read_their_json():
    kept = onnx_cast.Kept.of(
        json.loads(
            '{"model":"m","to":"FLOAT16","keep":[{"node":"n","op_type":"Sqrt","why":"w"}],"confirmed":true}'
        )
    )
    assert kept.node_block_list == ["n"] and kept.confirmed and kept.formats == {}
    row = {"tensor": "x", "kind": "weight", "type": "INT8", "nodes": ["n"]}
    outputs = [
        {"name": "y", "sqnr": "Infinity"},
        {"name": "z", "sqnr": 12.34},
        {"name": "f", "sqnr": None},
    ]
    ranked = onnx_cast.Kept.of(
        {"model": "m", "to": "INT8", "quantized": True, "quantizers": [{**row, "outputs": outputs}]}
    )
    assert ranked.quantized and ranked.quantizers[0].sqnr == {"y": math.inf, "z": 12.34, "f": None}
    assert str(ranked).splitlines() == [
        "m is quantised: what each quantiser does alone",
        "INT8 weight `x` alone: y inf dB, z 12.3 dB, f fails",
    ]
    fixed = onnx_cast.Fixed.of(
        {
            "model": "m",
            "output": "f",
            "changes": [{"kind": "to", "place": "c", "from": "a", "to": "b", "text": "a is b"}],
            "left": [],
        }
    )
    assert fixed.changes == [onnx_cast.Change("to", "c", "a", "b", "a is b")]
    assert str(fixed) == "f: 1 fixed\na is b"


def test_reports_speak_of_what_the_caller_knows(whole, tmp_path, x):
    """Arrays and objects have no files that he has heard of, and what is to be done is said in Python."""
    places = {name: tmp_path / name for name in ("report", "markdown", "junit")}
    broken = whole / "rms_norm_FLOAT16" / "model.onnx"
    model = (whole / "rms_norm_FLOAT" / "model.onnx").read_bytes()
    result = onnx_cast.compare(model, broken, {"x": 10 * x}, **places)
    assert not result.passed and result.reference == "reference.onnx"
    assert result.next == 'onnx_cast.keep(reference, to="FLOAT16", inputs=inputs)'
    for place in places.values():
        text = html.unescape(place.read_text())
        assert "onnx_cast" in text, place
        assert "input_0.pb" not in text and "/onnx-cast-" not in text, place
    audited = onnx_cast.audit(broken, {"x": 10 * x})
    assert "overflows" in audited.cause and "onnx_cast.keep(original" in audited.next
    assert audited.next in str(audited)
    assert any("`ranges`" in said for said in onnx_cast.audit(broken, random=True).warnings)


def test_a_conversion_is_written_if_it_holds(whole, tmp_path):
    model, output = whole / "mlp_weights_FLOAT8E4M3FN" / "model.onnx", tmp_path / "half.onnx"
    converted = onnx_cast.convert(model, output)
    assert converted.passed and converted.verdict == "holds" and output.exists()
    assert converted.output == str(output)
    failed = onnx_cast.convert(model, tmp_path / "none.onnx", rtol=0, atol=0, keep_ops=["MatMul"])
    assert failed.passed == (failed.output is not None) == (tmp_path / "none.onnx").exists()
    with pytest.raises(onnx_cast.CallError):
        onnx_cast.convert(model, output)
