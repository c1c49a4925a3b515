#!/usr/bin/env bash
# The documented workflow, and README's steps, on a fresh clone, with the program that was built: test_workflow.sh TARGET PYTHON. They
# must stop the broken conversion and let the mended one pass, and their comment must be Markdown that renders.
set -euo pipefail
cd "$(dirname "$0")/../.."
repository=$PWD
program=$(realpath "$1")/debug
python=$(realpath "$(dirname "$2")")/$(basename "$2")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

checkout() { # CONVERSION: somebody's repository with a model and its conversion, and this repository beside it
  local user=$scratch/$1
  mkdir "$user"
  git clone --quiet "$repository" "$user/onnx-cast"
  cp -r "$repository/models/whole/rms_norm_FLOAT" "$user/model"
  cp -r "$repository/models/whole/$1" "$user/model_fp16"
  cp "$user/model/model.onnx" "$user/model.onnx"
  cp "$user/model_fp16/model.onnx" "$user/model_fp16.onnx"
}

check() { # CONVERSION STATUS
  checkout "$1"
  for page in README.md docs/checking-a-conversion.md; do
    local status=0
    PATH=$program:$PATH "$python" scripts/ci/run_workflow.py "$page" "$scratch/$1" || status=$?
    if [ "$status" != "$2" ]; then
      echo "error: the workflow of $page ended with $status on $1, not with $2" >&2
      exit 1
    fi
    "$python" scripts/ci/render_comment.py "$scratch/$1/comment.md"
  done
}

check rms_norm_FLOAT16 1
grep -q Cast "$scratch/rms_norm_FLOAT16/comment.md"
check rms_norm_FLOAT16_fixed 0
echo "the documented workflow stops the broken conversion and lets the mended one pass"
