"""Instructions per element of the conversions' loops on arm64, and cycles by llvm-mca, from a run under qemu-user.

Needs qemu-aarch64, a linker for arm64 and llvm-mca (Debian: qemu-user, gcc-aarch64-linux-gnu, llvm-19), and the program
that `make bench-arm64` builds.

    python scripts/bench/instructions.py PROGRAM [--loop] [FROM:TO ...]

Instructions are counted exactly: those of a run of three conversions without those of a run of one. The cycles are of the
block of instructions that runs most, and of those that run about as often: the loop, which `--loop` prints. Where two loops
follow one another, by way of FLOATs in a tile, they are of the longer one.
"""

import argparse
import collections
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

ELEMENTS = 2048
PAIRS = """FLOAT:FLOAT16 FLOAT16:FLOAT FLOAT:BFLOAT16 BFLOAT16:FLOAT FLOAT:INT8 FLOAT:UINT8 FLOAT:INT16 FLOAT:INT32
    FLOAT:INT64 FLOAT:UINT32 FLOAT:UINT64 FLOAT:BOOL INT8:FLOAT UINT8:FLOAT INT32:FLOAT INT64:FLOAT BOOL:FLOAT
    DOUBLE:FLOAT FLOAT:DOUBLE DOUBLE:FLOAT16 INT64:INT32 INT32:INT64 INT32:INT8 UINT8:FLOAT16 FLOAT16:INT32
    FLOAT:FLOAT8E4M3FN FLOAT8E4M3FN:FLOAT FLOAT:FLOAT8E4M3FNUZ FLOAT8E4M3FNUZ:FLOAT FLOAT:FLOAT8E5M2
    FLOAT8E5M2:FLOAT FLOAT:FLOAT8E5M2FNUZ FLOAT8E5M2FNUZ:FLOAT FLOAT16:FLOAT8E4M3FN BFLOAT16:FLOAT8E4M3FN
    FLOAT8E4M3FN:FLOAT16 FLOAT8E4M3FN:FLOAT8E5M2 FLOAT:FLOAT8E8M0 FLOAT8E8M0:FLOAT FLOAT:FLOAT4E2M1
    FLOAT4E2M1:FLOAT FLOAT:INT4 INT4:FLOAT"""
CPUS = ["neoverse-n1", "apple-m1"]
INSTRUCTION = re.compile(r"0x[0-9a-f]+:\s+[0-9a-f]{8}\s+(.*)")


def blocks(program, pair, times):
    """The blocks of instructions that ran: how often each, and the instructions by where they begin."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        emulator = [
            "qemu-aarch64",
            "-L",
            "/usr/aarch64-linux-gnu",
            "-d",
            "in_asm,exec,nochain",
            "-D",
            str(log),
        ]
        words = ["run", *pair.split(":"), str(ELEMENTS), str(times)]
        subprocess.run([*emulator, program, *words], check=True)
        counts, texts, current = collections.Counter(), {}, None
        for line in log.read_text(errors="replace").splitlines():
            if line.startswith("Trace"):
                counts[int(line.split("/")[1], 16)] += 1
            elif line.startswith("IN:"):
                current = None
            elif match := INSTRUCTION.match(line):
                if current is None:
                    current = texts.setdefault(int(line.split(":")[0], 16), [])
                    current.clear()
                current.append(match[1])
        return counts, texts


def cycles(loop, cpu):
    """Cycles of one round, where one follows the other."""
    # A branch's target is no matter there, and is written in a way that only a disassembler reads.
    plain = [re.sub(r"#0x55[0-9a-f]+", "#0", text) for text in loop]
    mca = next(name for name in ("llvm-mca-19", "llvm-mca") if shutil.which(name))
    command = [mca, "-mtriple=aarch64", f"-mcpu={cpu}", "-iterations=200"]
    answer = subprocess.run(
        command, input="\n".join(plain), capture_output=True, text=True, check=True
    )
    return int(re.search(r"Total Cycles:\s+(\d+)", answer.stdout)[1]) / 200


def measure(program, pair):
    """Instructions per element, and the loop with how often it runs for each element."""
    one, three = blocks(program, pair, 1), blocks(program, pair, 3)
    runs = {at: (count - one[0][at]) / 2 for at, count in three[0].items() if count > one[0][at]}
    texts = three[1]
    instructions = sum(runs[at] * len(texts[at]) for at in runs)
    most = max(runs, key=lambda at: runs[at] * len(texts[at]))
    # Of a loop of several blocks, all that run about as often.
    near = sorted(at for at in runs if 0.5 * runs[most] <= runs[at] <= 2 * runs[most])
    return (
        instructions / ELEMENTS,
        [text for at in near for text in texts[at]],
        runs[most] / ELEMENTS,
    )


def main():
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--loop", action="store_true", help="print the loop, too")
    parser.add_argument("pairs", nargs="*", help="FROM:TO; those of the survey if none is given")
    arguments = parser.parse_intermixed_args()
    print(f"| pair | instructions | {' | '.join(f'cycles, {cpu}' for cpu in CPUS)} |")
    print(f"|---|---|{'---|' * len(CPUS)}")
    for pair in arguments.pairs or PAIRS.split():
        count, loop, rounds = measure(arguments.program, pair)
        figures = [f"{cycles(loop, cpu) * rounds:.2f}" for cpu in CPUS]
        print(f"| {pair.replace(':', ' → ')} | {count:.2f} | {' | '.join(figures)} |", flush=True)
        if arguments.loop:
            print("\n".join(loop))


if __name__ == "__main__":
    main()
