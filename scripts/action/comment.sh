#!/usr/bin/env bash
# Writes FOLDER/comment.md into the pull request NUMBER: over the comment that begins with the same marker, which names the model, or anew.
set -euo pipefail
marker=$(head -n 1 "$FOLDER/comment.md")
comments=repos/$GITHUB_REPOSITORY/issues/$NUMBER/comments
id=$(MARKER=$marker gh api --paginate "$comments" --jq '.[] | select(.body | startswith(env.MARKER)) | .id' | head -n 1)
if [ -n "$id" ]; then
  gh api --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$id" --field "body=@$FOLDER/comment.md" --silent
else
  gh api --method POST "$comments" --field "body=@$FOLDER/comment.md" --silent
fi
