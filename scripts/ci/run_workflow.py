"""Runs the steps of the workflow that a page documents, as GitHub would, and says what came of them.

run_workflow.py PAGE FOLDER: PAGE has a workflow or its steps as its first block of YAML; FOLDER is its user's checkout.
Steps that run something are run; an action of the checkout (`uses: ./…`) is run step by step as its action.yml says; of
GitHub's own actions what they would take is checked. `gh` is one that keeps what it is given, in FOLDER/comment.md. The exit
status is that of the first step that failed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

GH = """#!/usr/bin/env bash
while [ $# -gt 0 ]; do
  case $1 in body=@*) cp "${1#body=@}" "$COMMENT" ;; esac
  shift
done
"""


class Runner:
    def __init__(self, folder: Path, scratch: Path) -> None:
        self.folder = folder
        self.scratch = scratch
        self.status = 0
        tools = scratch / "tools"
        tools.mkdir()
        (tools / "gh").write_text(GH)
        (tools / "gh").chmod(0o755)
        self.environment = os.environ | {
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "COMMENT": str(folder / "comment.md"),
            "GITHUB_STEP_SUMMARY": str(scratch / "summary.md"),
            "GITHUB_PATH": str(scratch / "path"),
            "GITHUB_OUTPUT": str(scratch / "output"),
            "GITHUB_REPOSITORY": "somebody/model",
        }

    def steps(self, steps: list[dict[str, Any]], values: dict[str, str]) -> None:
        for step in steps:
            condition = str(step.get("if", "success()"))
            always = "always()" in condition or "!cancelled()" in condition
            if self.status and not always:
                continue
            if "inputs.comment == 'true'" in condition and values.get("inputs.comment") != "true":
                continue
            self.step(step, values)

    def step(self, step: dict[str, Any], values: dict[str, str]) -> None:
        name = step.get("name") or step.get("uses") or step.get("run")
        print(f"# {name}", flush=True)
        given = {key: fill(str(value), values) for key, value in (step.get("with") or {}).items()}
        uses = step.get("uses")
        if uses is None:
            variables = {
                key: fill(str(value), values) for key, value in (step.get("env") or {}).items()
            }
            command = ["bash", "-e", "-o", "pipefail", "-c", fill(step["run"], values)]
            ran = subprocess.run(
                command, cwd=self.folder, env=self.environment | variables, check=False
            )
            if not step.get("continue-on-error"):
                self.status = self.status or ran.returncode
            values.update(self.outputs(step.get("id", "")))
        elif uses.startswith("./"):
            self.action(self.folder / uses, given)
        elif uses.startswith("actions/upload-artifact@"):
            assert any(self.folder.glob(given["path"])), f"nothing to upload at {given['path']}"
            assert re.fullmatch(r"[\w.-]+", given["name"]), f"no artifact can be {given['name']}"
        else:
            assert re.fullmatch(r"actions/(checkout|cache/(restore|save))@[0-9a-f]{40}", uses), (
                f"{uses} is not pinned, or not known here"
            )

    def outputs(self, step: str) -> dict[str, str]:
        """What a step has written as its outputs."""
        written = self.scratch / "output"
        lines = written.read_text().splitlines() if written.exists() else []
        written.unlink(missing_ok=True)
        pairs = (line.split("=", 1) for line in lines)
        return {f"steps.{step}.outputs.{name}": value for name, value in pairs}

    def action(self, folder: Path, given: dict[str, str]) -> None:
        action = yaml.safe_load((folder / "action.yml").read_text())
        values = {
            "github.action_path": str(folder.resolve()),
            "github.event.number": "1",
            "github.token": "",
            "runner.temp": str(self.scratch),
            "runner.os": "Linux",
            "runner.arch": "X64",
        }
        unknown = set(given) - set(action["inputs"])
        assert not unknown, f"no inputs of the action: {unknown}"
        for name, declared in action["inputs"].items():
            assert name in given or not declared.get("required"), f"the action needs `{name}`"
            values[f"inputs.{name}"] = given.get(name, fill(declared.get("default", ""), values))
        self.steps(action["runs"]["steps"], values)


def fill(text: str, values: dict[str, str]) -> str:
    """The text with its expressions' values; one that is not known here stays."""
    return re.sub(r"\$\{\{ ([\w.]+) \}\}", lambda found: values.get(found[1], found[0]), text)


def main() -> int:
    page, folder = Path(sys.argv[1]), Path(sys.argv[2]).resolve()
    block = re.search(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
    assert block, f"{page} has no workflow"
    shown = yaml.safe_load(block[1])
    jobs = [{"steps": shown}] if isinstance(shown, list) else shown["jobs"].values()
    with tempfile.TemporaryDirectory() as scratch:
        runner = Runner(folder, Path(scratch))
        for job in jobs:
            runner.steps(job["steps"], {})
    return runner.status


sys.exit(main())
