"""The same question and the same seconds for every tool: how many times as fast is a pruned prefill?

    python -m tests.benchmarks.instruments reports/instruments --seconds 12 --answers 6     measure, about an hour
    python -m tests.benchmarks.instruments reports/instruments --summary                    the table, and tools.svg

Each answer is a line of answers.jsonl; finished ones are not measured again. Tools take turns, in a seeded random
order. Two questions: TRIO at 33 % on `pocket` (A/B), and the same model with pruning that drops nothing (A/A). Each is
asked on a quiet machine, and beside a program that is busy about half of the time. PYTHONPATH must find pyperf.

A tool without an interval claims a difference from 5 % on. pyperf has a t-test. All time the wall time of one call of
the model with its Python, for the same seconds: half of them for each side, or in turn.
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from scipy.stats import t

from tests.places import PYTHONPATH

QUESTIONS = {"A/B": ("trio", "0.33"), "A/A": ("random", "1.0")}
BESIDE = ("quiet", "busy")
CLAIMED = 0.05
"""A tool without a rule of its own claims a difference that is larger."""
PROCESSES = 4
"""Of pyperf, for each side."""
BUSY = """
import random, sys, time
draw = random.Random(int(sys.argv[1]))
while True:
    end = time.time() + draw.expovariate(0.5)
    while time.time() < end:
        pass
    time.sleep(draw.expovariate(0.5))
"""
"""The program beside: it computes for 2 s in the mean, then sleeps for as long."""
Answer = dict[str, Any]


def call(arguments: list[str], question: str, **variables: str) -> str:
    """Run a Python program of this tree, and return what it prints."""
    method, retention = QUESTIONS[question]
    fields = {"PYTHONPATH": os.pathsep.join([PYTHONPATH, os.environ.get("PYTHONPATH", "")]), **variables}
    environment = {**os.environ, **fields, "METHOD": method, "RETENTION": retention}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, check=True, text=True, stdout=subprocess.PIPE
    ).stdout


def ratio_of(dense: float, pruned: float) -> Answer:
    """Return the answer of a tool without an interval."""
    return {"ratio": dense / pruned, "differs": abs(math.log(dense / pruned)) > math.log(1 + CLAIMED)}


def by_sweep(question: str, seconds: float) -> Answer:
    """`trio-profile sweep`."""
    method, retention = QUESTIONS[question]
    with tempfile.TemporaryDirectory() as out:
        asked = ["--method", method, "--retention", retention, "--asked", "10", "--seconds", f"{seconds:g}"]
        [cell] = json.loads(call(["-m", "trio_profile", "sweep", *asked, "--out", out, "--json"], question))["cells"]
    low, high = cell["prefill_speedup"]["ci95"]
    return {"ratio": cell["prefill_speedup"]["median"], "ci95": [low, high], "differs": not low <= 1 <= high}


def by_torch(processes: list[list[str]], question: str, seconds: float) -> Answer:
    """`torch.utils.benchmark`. processes: the sides that each process times, one after the other."""
    medians: list[float] = []
    for sides in processes:
        timed = ["torch", *sides, "--seconds", f"{seconds / len(processes):g}"]
        medians += json.loads(call(["-m", "tests.benchmarks.timed_prefill", *timed], question))
    return ratio_of(*medians)


def by_pytest(question: str, seconds: float) -> Answer:
    """pytest-benchmark, a run for each side, and the medians compared as `--benchmark-compare` does."""
    medians = []
    with tempfile.TemporaryDirectory() as out:
        for side in ("dense", "pruned"):
            file = Path(out) / f"{side}.json"
            options = [f"--benchmark-json={file}", f"--benchmark-max-time={seconds / 2:g}", "--benchmark-min-rounds=3"]
            test = ["-m", "pytest", "-q", "-c", os.devnull, "-p", "no:xdist", "--rootdir=.", "--noconftest", *options]
            call([*test, "tests/benchmarks/timed_prefill.py"], question, SIDE=side)
            medians.append(json.loads(file.read_text())["benchmarks"][0]["stats"]["median"])
    return ratio_of(*medians)


def by_pyperf(question: str, seconds: float) -> Answer:
    """pyperf, a few processes for each side, and its t-test."""
    each = json.loads(call(["-m", "tests.benchmarks.timed_prefill", "torch", "dense", "--seconds", "1"], question))[0]
    values = max(round(seconds / 2 / PROCESSES / each), 2)
    with tempfile.TemporaryDirectory() as out:
        files = [f"{out}/{side}.json" for side in ("dense", "pruned")]
        for side, file in zip(("dense", "pruned"), files, strict=True):
            options = ["-o", file, "--processes", str(PROCESSES), "--values", str(values), "--loops", "1"]
            options += ["--warmups", "1", "--inherit-environ", "PYTHONPATH,METHOD,RETENTION", "--quiet"]
            call(["-m", "tests.benchmarks.timed_prefill", "pyperf", side, *options], question)
        means = [median(_values(Path(file))) for file in files]
        told = call(["-m", "pyperf", "compare_to", *files], question)
    return {"ratio": means[0] / means[1], "differs": "not significant" not in told.lower()}


def _values(file: Path) -> list[float]:
    runs = json.loads(file.read_text())["benchmarks"][0]["runs"]
    return [value for run in runs for value in run.get("values", ())]


TOOLS: dict[str, Callable[[str, float], Answer]] = {
    "trio-profile": by_sweep,
    "torch.utils.benchmark, one process": partial(by_torch, [["dense", "pruned"]]),
    "torch.utils.benchmark, two processes": partial(by_torch, [["dense"], ["pruned"]]),
    "pytest-benchmark": by_pytest,
    "pyperf": by_pyperf,
}


@contextmanager
def neighbour(beside: str, seed: int) -> Iterator[None]:
    """Run a program that is busy about half of the time beside this one, if asked for."""
    if beside == "quiet":
        yield
        return
    program = subprocess.Popen([sys.executable, "-c", BUSY, str(seed)])
    try:
        yield
    finally:
        program.kill()
        program.wait()


def measure(out: Path, seconds: float, answers: int, seed: int) -> None:
    """Ask every tool, and write each answer as soon as it is there."""
    out.mkdir(parents=True, exist_ok=True)
    file = out / "answers.jsonl"
    done = {(a["tool"], a["question"], a["beside"], a["number"]) for a in read(out)}
    for number, question, beside in product(range(answers), QUESTIONS, BESIDE):
        tools = random.Random(f"{seed} {number} {question} {beside}").sample([*TOOLS], len(TOOLS))
        for tool in tools:
            if (tool, question, beside, number) in done:
                continue
            begin = time.monotonic()
            with neighbour(beside, seed + number):
                answer = TOOLS[tool](question, seconds)
            answer |= {"tool": tool, "question": question, "beside": beside, "number": number, "asked": seconds}
            with file.open("a") as lines:
                lines.write(json.dumps({**answer, "seconds": round(time.monotonic() - begin, 1)}) + "\n")
            print(tool, question, beside, f"{answer['ratio']:.3f}", flush=True)


def read(out: Path) -> list[Answer]:
    """Return the answers so far."""
    file = out / "answers.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def truth(answers: list[Answer], question: str) -> tuple[float, float, float]:
    """Return the geometric mean of all tools' means on the quiet machine, and its 95 % interval: no tool defines it."""
    quiet = [a for a in answers if (a["question"], a["beside"]) == (question, "quiet")]
    means = [fmean(math.log(a["ratio"]) for a in quiet if a["tool"] == tool) for tool in TOOLS]
    middle, reach = fmean(means), t.ppf(0.975, len(means) - 1) * stdev(means) / math.sqrt(len(means))
    return math.exp(middle), math.exp(middle - reach), math.exp(middle + reach)


def summary(out: Path) -> str:
    """Return the table of all tools in Markdown."""
    lines = [
        "| question | machine | tool | answers | spread | its interval meets all | claims a difference | ±5 % after |"
    ]
    lines.append("|---|---|---|---|---|---|---|---|")
    every = read(out)
    for question, beside in product(QUESTIONS, BESIDE):
        _, least, most = truth(every, question)
        for tool in TOOLS:
            own = [a for a in every if (a["question"], a["beside"], a["tool"]) == (question, beside, tool)]
            logs = [math.log(a["ratio"]) for a in own]
            spread = stdev(logs)
            held = [a["ci95"][0] <= most and least <= a["ci95"][1] for a in own if "ci95" in a]
            cost = median(a["seconds"] for a in own) * (1.96 * spread / CLAIMED) ** 2
            ratios = [a["ratio"] for a in own]
            cells = [f"{min(ratios):.2f} to {max(ratios):.2f}×", f"{spread:.1%}"]
            cells += [f"{sum(held)} of {len(held)}" if held else "no interval"]
            cells += [f"{sum(a['differs'] for a in own)} of {len(own)}", f"{cost:.0f} s"]
            lines.append(f"| {question} | {beside} | {tool} | {' | '.join(cells)} |")
    for question in QUESTIONS:
        together, least, most = truth(every, question)
        lines += ["", f"{question}: all tools together say {together:.2f}× [{least:.2f}, {most:.2f}]."]
    return "\n".join(lines)


def picture(out: Path) -> str:
    """Return an SVG with a row for each tool: its answers to A/B, quiet and beside the busy program."""
    every = [a for a in read(out) if a["question"] == "A/B"]
    low, high = (f(math.log(a["ratio"]) for a in every) for f in (min, max))
    together, least, most = truth(every, "A/B")

    def place(ratio: float) -> float:
        return 270 + 400 * (math.log(ratio) - low) / (high - low or 1)

    foot = 80 + 44 * len(TOOLS)
    wide = place(most) - place(least)
    marks = [f'<rect x="{place(least):.1f}" y="34" width="{wide:.1f}" height="{foot - 64}" fill="#eee"/>']
    marks += [f'<line x1="{place(together):.1f}" x2="{place(together):.1f}" y1="34" y2="{foot - 30}" stroke="#999"/>']
    label = f"all tools together, quiet: {together:.2f}× [{least:.2f}, {most:.2f}]"
    marks += [f'<text x="{place(together):.1f}" y="26" text-anchor="middle">{label}</text>']
    for ratio in (0.7, 1.0, 1.4, 2.0):
        marks += [f'<text x="{place(ratio):.1f}" y="{foot - 12}" text-anchor="middle" fill="#666">{ratio:g}×</text>']
    for row, tool in enumerate(TOOLS):
        marks.append(f'<text x="0" y="{64 + 44 * row}">{tool}</text>')
        for line, (beside, colour) in enumerate((("quiet", "#0b6e4f"), ("busy", "#c8553d"))):
            y = 54 + 44 * row + 14 * line
            marks += [
                f'<circle cx="{place(a["ratio"]):.1f}" cy="{y}" r="4" fill="{colour}" fill-opacity="0.7"/>'
                for a in every
                if (a["tool"], a["beside"]) == (tool, beside)
            ]
    foot += 12
    marks.append(f'<text x="270" y="{foot}" fill="#0b6e4f">quiet machine</text>')
    marks.append(f'<text x="400" y="{foot}" fill="#c8553d">beside a program that is busy half of the time</text>')
    size = f'viewBox="0 0 700 {foot + 12}" font-family="sans-serif" font-size="13"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
    title = f"<title>Answers of {len(TOOLS)} tools: how many times as fast is the pruned prefill?</title>"
    ground = '<rect width="100%" height="100%" fill="white"/>'
    return "\n".join([head, title, ground, *marks, "</svg>", ""])


def main() -> None:
    """Measure, or print the table and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=12.0, help="of measuring, for one answer")
    parser.add_argument("--answers", type=int, default=6, help="of each tool to each question")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--summary", action="store_true")
    options = parser.parse_args()
    if not options.summary:
        measure(options.out, options.seconds, options.answers, options.seed)
    print(summary(options.out))
    (options.out / "tools.svg").write_text(picture(options.out))


if __name__ == "__main__":
    main()
