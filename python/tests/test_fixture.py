"""The fixture, in tests of its own."""

import pytest

TEST = """
def test_fp16(onnx_cast):
    onnx_cast.compare({reference!r}, {converted!r}, rtol=1e-2, atol=1e-2)
"""


def outcome(pytester, whole, converted):
    pytester.makepyfile(
        TEST.format(reference=str(whole / "rms_norm_FLOAT"), converted=str(whole / converted))
    )
    return pytester.runpytest_subprocess("-q")


def test_a_broken_conversion_fails_by_name(pytester, whole, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    ran = outcome(pytester, whole, "rms_norm_FLOAT16")
    ran.assert_outcomes(failed=1)
    ran.stdout.fnmatch_lines(
        [
            "*culprit: `Cast_sum_half`*",
            "*report: *test_fp16.html",
            "*remedy: node_block_list=[[]'ReduceSum_sum', 'Sqrt_norm'[]]*",
        ]
    )
    # pytest's summary has room for little: the culprit is what it is about.
    ran.stdout.fnmatch_lines(["FAILED *test_fp16 - Failed: `Cast_sum_half`: 2 overflowed; *"])
    ran.stdout.no_fnmatch_line("*Traceback*")
    assert (pytester.path / "onnx-cast-reports" / "test_fp16.html").stat().st_size > 10_000


def test_a_mended_one_passes(pytester, whole):
    outcome(pytester, whole, "rms_norm_FLOAT16_fixed").assert_outcomes(passed=1)
    assert list((pytester.path / "onnx-cast-reports").iterdir()) == []


def test_a_pass_on_random_inputs_is_a_warning(pytester, whole):
    names = ("rms_norm_FLOAT", "rms_norm_FLOAT16_fixed")
    files = [str(whole / name / "model.onnx") for name in names]
    pytester.makepyfile(
        "def test_fp16(onnx_cast):\n"
        f"    onnx_cast.compare({files[0]!r}, {files[1]!r}, rtol=1e-2, atol=1e-2, random=True)"
    )
    ran = pytester.runpytest_subprocess("-q")
    ran.assert_outcomes(passed=1, warnings=1)
    ran.stdout.fnmatch_lines(["*OnnxCastWarning: the inputs are random*"])


def test_keep_gives_the_nodes(pytester, whole):
    pytester.makepyfile(
        "def test_kept(onnx_cast):\n"
        f"    assert onnx_cast.keep({str(whole / 'rms_norm_FLOAT')!r}).node_block_list"
    )
    pytester.runpytest_subprocess("-q").assert_outcomes(passed=1)


def test_what_cannot_be_run_fails_in_one_line(pytester, whole):
    ran = outcome(pytester, whole, "no_such_model")
    ran.assert_outcomes(failed=1)
    ran.stdout.fnmatch_lines(["model: *no_such_model*"])
    ran.stdout.no_fnmatch_line("*During handling*")


@pytest.mark.parametrize(
    ("converted", "failed"), [("rms_norm_FLOAT16", 1), ("rms_norm_FLOAT16_fixed", 0)]
)
def test_audits(pytester, whole, converted, failed):
    pytester.makepyfile(
        f"def test_casts(onnx_cast):\n    onnx_cast.audit({str(whole / converted)!r})"
    )
    pytester.runpytest_subprocess("-q").assert_outcomes(failed=failed, passed=1 - failed)


def test_a_failure_leaves_a_case_where_it_is_asked_for(pytester, whole):
    names = ("rms_norm_FLOAT", "rms_norm_FLOAT16")
    reference, converted = (str(whole / name) for name in names)
    pytester.makepyfile(TEST.format(reference=reference, converted=converted))
    ran = pytester.runpytest_subprocess("-q", "--onnx-cast-reduce")
    ran.assert_outcomes(failed=1)
    ran.stdout.fnmatch_lines(["*reduced: *test_fp16-case-1: * nodes: * overflows*"])
    case = pytester.path / "onnx-cast-reports" / "test_fp16-case-1"
    assert (case / "model.onnx").is_file() and (case / "README.md").is_file()
