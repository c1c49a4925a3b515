#!/usr/bin/env bash
# The check itself: COMMAND, REFERENCE, MODEL, ARGUMENTS and FOLDER are the inputs of action.yml. Its exit status is onnx-cast's.
set -eo pipefail
case $COMMAND in
  compare) paths=("$REFERENCE" "$MODEL") ;;
  audit) paths=("$MODEL") ;;
  *) echo "error: the command is \`compare\` or \`audit\`, not \`$COMMAND\`" >&2 && exit 2 ;;
esac
mkdir -p "$FOLDER"
# Words, as the description says; no file names are made of them.
set -f
# shellcheck disable=SC2206
arguments=($ARGUMENTS)

status=0
onnx-cast "$COMMAND" "${paths[@]}" ${arguments[@]+"${arguments[@]}"} --report "$FOLDER/report.html" \
  --markdown="$FOLDER/comment.md" --json="$FOLDER/report.json" 2>"$FOLDER/error.txt" || status=$?
cat "$FOLDER/error.txt" >&2
if [ ! -s "$FOLDER/comment.md" ]; then
  printf '### ❌ `onnx-cast %s`\n\n```text\n%s\n```\n' "$COMMAND" "$(cat "$FOLDER/error.txt")" >"$FOLDER/comment.md"
fi
rm -f "$FOLDER/error.txt"
# By this the comment is found again; what could end it is left out of the name.
marker="<!-- onnx-cast $COMMAND ${MODEL//[<>]/} -->"
printf '%s\n%s\n' "$marker" "$(cat "$FOLDER/comment.md")" >"$FOLDER/comment.md.new"
mv "$FOLDER/comment.md.new" "$FOLDER/comment.md"
if [ -n "${GITHUB_OUTPUT:-}" ]; then
  # An artifact's name has no slashes.
  name=${NAME:-onnx-cast-$COMMAND-$MODEL}
  printf 'status=%s\nname=%s\n' "$status" "$(printf %s "$name" | tr -c 'A-Za-z0-9._-' -)" >>"$GITHUB_OUTPUT"
fi
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
  cat "$FOLDER/comment.md" >>"$GITHUB_STEP_SUMMARY"
fi
exit "$status"
