"""What cannot be done: one line, of the right kind, and no other exception."""

import os
import stat
import sys
import time

import numpy as np
import pytest

import onnx_cast

X = np.zeros((2, 8), np.float32)


def refused(kind, call):
    with pytest.raises(onnx_cast.OnnxCastError) as raised:
        call()
    line = str(raised.value)
    assert raised.value.kind == kind, line
    assert "\n" not in line and not line.startswith("error") and "Traceback" not in line
    assert raised.value.__cause__ is None
    return line


CASES = {
    "no model": ("model", lambda m: onnx_cast.audit(m / "missing.onnx"), "missing.onnx"),
    "no such input": ("input", lambda m: onnx_cast.run(m / "model.onnx", {"nope": X}), "`nope`"),
    "no such input of two models": (
        "input",
        lambda m: onnx_cast.compare(m, m, {"nope": X}),
        "`nope`",
    ),
    "no such input of sets": (
        "input",
        lambda m: onnx_cast.compare(m, m, [{"x": X}, {"nope": X}]),
        "no input `nope`; its inputs: `x`",
    ),
    "shape": ("input", lambda m: onnx_cast.run(m / "model.onnx", {"x": X[:, :3]}), "[2, 3]"),
    "double": (
        "input",
        lambda m: onnx_cast.run(m / "model.onnx", {"x": X.astype(float)}),
        "input `x`: the array holds DOUBLE, not FLOAT: `.astype(numpy.float32)`",
    ),
    "path of an input": (
        "call",
        lambda m: onnx_cast.run(m / "model.onnx", {"x": m / "test_data_set_0" / "input_0.pb"}),
        "inputs['x'] is a path",
    ),
    "complex": (
        "input",
        lambda m: onnx_cast.run(m / "model.onnx", {"x": X.astype(complex)}),
        "complex128",
    ),
    "objects": ("input", lambda m: onnx_cast.run(m / "model.onnx", {"x": [object()]}), "object"),
    "tolerance": ("call", lambda m: onnx_cast.compare(m, m, rtol="much"), "'much'"),
    "limit": ("call", lambda m: onnx_cast.audit(m, allow=["nothing"]), "nothing"),
    "inputs": ("call", lambda m: onnx_cast.compare(m, m, 3), "dict"),
    "no sets": ("call", lambda m: onnx_cast.compare(m, m, []), "dict"),
    "name": ("call", lambda m: onnx_cast.compare(m, m, {1: X}), "1"),
    "path": ("call", lambda m: onnx_cast.audit(3), "int"),
    "bytes": ("call", lambda m: onnx_cast.audit(b"model.onnx"), "bytes"),
    "zero": ("call", lambda m: onnx_cast.audit("a\0b"), "character"),
    "dash": ("model", lambda m: onnx_cast.audit("--help"), "--help"),
    "many": ("call", lambda m: onnx_cast.audit(m.parent.parent / "audit"), "one model at a time"),
}


@pytest.mark.parametrize("name", CASES)
def test_one_line_of_its_kind(name, whole):
    kind, call, part = CASES[name]
    assert part in refused(kind, lambda: call(whole / "rms_norm_FLOAT"))


def test_scratch_folders_stay_unnamed(whole):
    line = refused(
        "input", lambda: onnx_cast.run(whole / "rms_norm_FLOAT" / "model.onnx", {"nope": X})
    )
    assert "onnx-cast-" not in line


def script(path, text):
    path.write_text(f"#!{sys.executable}\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.skipif(os.name == "nt", reason="there a script is no program")
@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("print('onnx-cast 0.0.1')", "version 0.0.1"),
        ("print('a program for castings, 1.0')", "another program"),
        ("raise SystemExit(3)", "another program"),
    ],
)
def test_other_programs_are_not_called(text, part, tmp_path, monkeypatch, whole):
    monkeypatch.setenv("ONNX_CAST_PROGRAM", str(script(tmp_path / "onnx-cast", text)))
    assert part in refused("call", lambda: onnx_cast.audit(whole / "rms_norm_FLOAT"))


@pytest.mark.skipif(os.name == "nt", reason="there a script is no program")
def test_a_foreign_program_first_on_the_path_is_passed_over(tmp_path, monkeypatch, whole):
    script(tmp_path / "onnx-cast", "print('castings 1.0')")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert onnx_cast.audit(whole / "rms_norm_FLOAT16_fixed").passed


def test_a_missing_program(tmp_path, monkeypatch):
    monkeypatch.setenv("ONNX_CAST_PROGRAM", str(tmp_path / "onnx-cast"))
    assert "No such file" in refused("call", onnx_cast.program)
    monkeypatch.delenv("ONNX_CAST_PROGRAM")
    monkeypatch.setattr("onnx_cast._program._folders", list)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(onnx_cast.ProgramError, match="not installed"):
        onnx_cast.program()


def test_a_model_without_the_memory_it_needs_is_beyond_a_limit():
    line = "error: m.onnx: tract ran out of memory; --max-memory raises the limit of 4.0 GiB"
    error = onnx_cast._errors.from_line(line, "limit")
    assert isinstance(error, onnx_cast.LimitError) and isinstance(error, onnx_cast.ModelError)
    said = "m.onnx: tract ran out of memory; max_memory raises the limit of 4.0 GiB"
    assert error.kind == "limit" and error.line == said


@pytest.mark.parametrize(
    ("shell", "here"),
    [
        ("m.onnx: -i x: has 3 elements", "m.onnx: inputs x: has 3 elements"),
        ("-o: a.onnx is there already", "output: a.onnx is there already"),
        ("--set n=0 and --keep-op Exp", "sizes n=0 and keep_ops Exp"),
        ("were not provided: --to <TYPE>", "were not provided: to"),
        ("node `a --to b`: try `run -i x`", "node `a --to b`: try `run -i x`"),
        ("a--b.onnx, ./--to.onnx: is no file", "a--b.onnx, ./--to.onnx: is no file"),
    ],
)
def test_errors_name_keywords(shell, here):
    assert str(onnx_cast._errors.from_line(f"error: {shell}", None)) == here


def test_numbers_without_an_end_take_no_time(whole, tmp_path):
    hostile = tmp_path / "model.onnx"
    hostile.write_bytes(b"\xff" * 4_000_000)
    start = time.monotonic()
    sets = [{"x": X}, {"x": X}]
    refused("model", lambda: onnx_cast.audit(hostile, sets))
    refused("model", lambda: onnx_cast.compare(hostile, whole / "rms_norm_FLOAT", sets))
    for field in (b"\x08", b"\x0a\x0b"):
        with pytest.raises(onnx_cast.InputError):
            onnx_cast._arrays.decoded(field + b"\xff" * 11)
    assert time.monotonic() - start < 20


@pytest.mark.skipif(os.name == "nt", reason="there are no such files")
def test_pipes_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "model.onnx")
    sets = [{"x": X}, {"x": X}]
    assert "is no file" in refused("model", lambda: onnx_cast.audit(tmp_path / "model.onnx", sets))


CALLS = {
    "compare": lambda m, t, **limits: onnx_cast.compare(m, m, **limits),
    "audit": lambda m, t, **limits: onnx_cast.audit(f"{m}16_fixed", **limits),
    "keep": lambda m, t, **limits: onnx_cast.keep(m / "model.onnx", rtol=0.5, **limits),
    "fix": lambda m, t, **limits: onnx_cast.fix(m / "model.onnx", t / "fixed.onnx", **limits),
    "record": lambda m, t, **limits: onnx_cast.record(m / "model.onnx", t / "to", **limits),
    "run": lambda m, t, **limits: onnx_cast.run(m / "model.onnx", **limits),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_call_has_limits(name, whole, tmp_path, monkeypatch):
    model, said = whole / "rms_norm_FLOAT", []
    answer = onnx_cast._program._answer
    monkeypatch.setattr(
        onnx_cast._program,
        "_answer",
        lambda command, timeout: said.append((command, timeout)) or answer(command, timeout),
    )
    limits = {"timeout": 100.5, "max_memory": 2, "max_nodes": 1000}
    CALLS[name](model, tmp_path, **limits)
    command, timeout = said[-1]
    assert timeout == 100.5
    assert {"--timeout=101", "--max-memory=2", "--max-nodes=1000"} <= set(command)
    for odd in ({"timeout": 0}, {"max_memory": 1.5}, {"max_nodes": "1"}, {"timeout": float("nan")}):
        assert next(iter(odd)) in refused(
            "call", lambda odd=odd: CALLS[name](model, tmp_path, **odd)
        )


@pytest.mark.parametrize("name", ["compare", "record", "run"])
def test_models_of_too_many_nodes_are_refused(name, whole, tmp_path):
    model = whole / "castlike_small_types"
    line = refused("model", lambda: CALLS[name](model, tmp_path, max_nodes=1))
    assert "loaded_nodes" in line


@pytest.mark.skipif(os.name == "nt", reason="there a script is no program")
def test_a_program_that_does_not_end_is_ended(tmp_path, monkeypatch, whole):
    text = "import sys, time\nprint('onnx-cast', 1) if '--version' in sys.argv else time.sleep(99)"
    monkeypatch.setenv("ONNX_CAST_PROGRAM", str(script(tmp_path / "onnx-cast", text)))
    monkeypatch.setattr("onnx_cast._program._version", lambda: None)
    monkeypatch.setattr("onnx_cast._program.GRACE", 0.5)
    start = time.monotonic()
    line = refused("limit", lambda: onnx_cast.audit(whole / "rms_norm_FLOAT", timeout=1))
    assert "timeout of 1 s" in line and time.monotonic() - start < 20
