#!/bin/sh
# Cargo's RUSTC_WRAPPER: has a stable compiler instrument this project's own crates for libFuzzer, and leaves all others as they are.
# SANITIZER is the compiler's option for one, and may be empty: what forbids unsafe code runs faster without.
case "$CARGO_PKG_NAME $*" in
*" build_script_build "*) exec "$@" ;;
"tract-onnx-cast "* | "onnx-cast-graph "* | "onnx-cast-fuzz "*)
	RUSTC_BOOTSTRAP=1 exec "$@" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
		-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
		-Cllvm-args=-sanitizer-coverage-trace-compares ${SANITIZER--Zsanitizer=address}
	;;
*) exec "$@" ;;
esac
