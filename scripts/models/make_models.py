"""Writes the golden models: `python -m models.make_models [OUT_DIR]`, by default models/.

Two runs with the versions of requirements.txt give the same bytes.  With `--check` nothing is
written, and the exit status tells whether OUT_DIR holds exactly what would be written.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from models.audit_cases import audit_cases
from models.cases import Case
from models.node_cases import node_cases
from models.whole_cases import whole_cases

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "scripts" / "requirements.txt"
OWNED = ("audit", "node", "whole", "MANIFEST.json")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    default = ROOT / "models"
    parser.add_argument("out_dir", nargs="?", type=Path, default=default)
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        fresh = Path(scratch)
        write_all(fresh)
        if arguments.check:
            return report(differences(fresh, arguments.out_dir))
        replace(fresh, arguments.out_dir)
    return 0


def write_all(root: Path) -> None:
    cases = sorted([*node_cases(), *whole_cases()], key=lambda case: case.name)
    for case in [*cases, *audit_cases()]:
        case.write(root)
    (root / "MANIFEST.json").write_text(manifest(cases))


def manifest(cases: Sequence[Case]) -> str:
    entries = [case.manifest_entry() for case in cases]
    return json.dumps({"generator": generator(), "cases": entries}, indent=1) + "\n"


def generator() -> dict[str, str]:
    """The pinned versions, which must be the installed ones."""
    lines = REQUIREMENTS.read_text().splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    for name, pin in pins.items():
        # A build tag such as +cpu names another build of the same version.
        installed = version(name).split("+")[0]
        if installed != pin:
            raise SystemExit(f"error: {name} {installed} is installed, {pin} is pinned")
    return {"python": ".".join(platform.python_version_tuple()[:2]), **pins}


def replace(fresh: Path, out_dir: Path) -> None:
    """Cases that left the tables leave the folder too; files of others stay."""
    out_dir.mkdir(parents=True, exist_ok=True)
    for name in OWNED:
        old = out_dir / name
        if old.is_dir():
            shutil.rmtree(old)
        shutil.move(fresh / name, old)


def differences(fresh: Path, out_dir: Path) -> list[str]:
    wanted, found = owned_files(fresh), owned_files(out_dir)
    shared = wanted & found
    _, changed, unreadable = filecmp.cmpfiles(fresh, out_dir, shared, shallow=False)
    return sorted({*(wanted ^ found), *changed, *unreadable})


def owned_files(root: Path) -> set[str]:
    files = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return {str(path) for path in files if path.parts[0] in OWNED}


def report(paths: Sequence[str]) -> int:
    for path in paths:
        print(f"differs: {path}", file=sys.stderr)
    return 1 if paths else 0


if __name__ == "__main__":
    sys.exit(main())
