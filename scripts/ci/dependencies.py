"""Holds docs/dependencies.md against `cargo tree`: the crates that ours bring beyond tract's, and what their sources touch.

With --write, the versions and what is touched are written anew; what a crate is for is written by who has read it.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "dependencies.md"
ROW = re.compile(r"^\| `([^`]+)` \| ([^|]*) \| ([^|]*) \| ([^|]*) \|$")
TOUCHES = {
    "unsafe": r"\bunsafe\s*(\{|fn|impl|extern)",
    "files": r"\bstd::fs\b|\bfs::(File|read|write|open|remove|create|rename)|\bFile::(open|create)",
    "network": r"\bstd::net\b|\bTcp(Stream|Listener)\b|\bUdpSocket\b",
    "processes": r"\bprocess::Command\b|\bCommand::new\(\s*[\"a-z]+[^)]*\)\s*\.(arg|spawn|output)",
    "assembler": r"\b(asm|global_asm)!",
}


def cargo(*arguments: str, folder: Path = ROOT) -> str:
    """What cargo prints."""
    return subprocess.run(
        ["cargo", *arguments], cwd=folder, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def tree(package: str, folder: Path = ROOT) -> set[tuple[str, str]]:
    """Names and versions of what a package needs to be built on Linux."""
    lines = cargo(
        "tree", "--package", package, "--edges", "normal,build", "--prefix", "none", "--no-dedupe",
        "--target", "x86_64-unknown-linux-gnu", "--format", "{p}", folder=folder,
    ).splitlines()  # fmt: skip
    return {(name, version[1:]) for name, version, *_ in (line.split() for line in lines if line)}


def tree_of_tract() -> set[tuple[str, str]]:
    """What somebody has who depends on tract-onnx alone, of the versions of Cargo.lock."""
    with tempfile.TemporaryDirectory() as folder:
        bare = Path(folder)
        (bare / "src").mkdir()
        (bare / "src" / "lib.rs").touch()
        (bare / "Cargo.lock").write_bytes((ROOT / "Cargo.lock").read_bytes())
        requirement = re.search(r"^tract-onnx = .*$", (ROOT / "Cargo.toml").read_text(), re.M)[0]
        manifest = f'[package]\nname = "bare"\nedition = "2024"\n[dependencies]\n{requirement}\n'
        (bare / "Cargo.toml").write_text(manifest)
        return tree("bare", bare)


def touches(folder: Path, targets: list[dict]) -> str:
    """What a crate's sources name, its tests, examples and benches left out."""
    left_out = {"tests", "examples", "benches", "test", "fuzz"}
    files = [
        path
        for path in folder.rglob("*.rs")
        if not left_out & set(path.relative_to(folder).parts[:-1])
    ]
    text = "\n".join(
        re.sub(r"//.*", "", path.read_text(errors="replace"))
        for path in files
        if path.name not in ("build.rs", "tests.rs")
    )
    found = [what for what, pattern in TOUCHES.items() if re.search(pattern, text)]
    kinds = {kind for target in targets for kind in target["kind"]}
    found += ["build script"] if "custom-build" in kinds else []
    found += ["macro"] if "proc-macro" in kinds else []
    return ", ".join(found) or "nothing"


def main() -> int:
    """Compares, or writes."""
    packages = {
        (package["name"], package["version"]): package
        for package in json.loads(cargo("metadata", "--locked", "--format-version", "1"))[
            "packages"
        ]
    }
    of_tract = tree_of_tract()
    library = tree("tract-onnx-cast") - of_tract
    program = tree("onnx-cast") - of_tract - library
    facts = {}
    for part, crates in (("library", library), ("command line", program)):
        for key in crates:
            if packages[key]["source"]:
                folder = Path(packages[key]["manifest_path"]).parent
                facts[key[0], part] = (key[1], touches(folder, packages[key]["targets"]))
    part, known, lines = "", {}, []
    for line in DOCUMENT.read_text().splitlines():
        if line.startswith("## "):
            part = line[3:].lower()
        row = ROW.match(line)
        if not row:
            lines.append(line)
            continue
        name, _, purpose, _ = (cell.strip() for cell in row.groups())
        known[name, part] = line
        if (name, part) in facts:
            version, touched = facts[name, part]
            lines.append(f"| `{name}` | {version} | {purpose} | {touched} |")
    for name, part in sorted(facts.keys() - known.keys()):
        print(
            f"{name}, of the {part}, is not in docs/dependencies.md: {facts[name, part]}",
            file=sys.stderr,
        )
    new = "\n".join(lines) + "\n"
    if "--write" in sys.argv[1:]:
        DOCUMENT.write_text(new)
    elif new != DOCUMENT.read_text():
        print(
            "docs/dependencies.md: versions, or what is touched, have changed; --write",
            file=sys.stderr,
        )
        return 1
    return int(facts.keys() != known.keys())


if __name__ == "__main__":
    sys.exit(main())
