"""The fuzz run at its full size. It prints each defect with its seed, then the counts.

python -m tests.fuzz                            # 5,000 inputs
python -m tests.fuzz --inputs 1 --first 4711   # one input again
"""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.fuzz.cases import Corpus
from tests.fuzz.in_process import faults_of


def main() -> int:
    """Run what the options ask for. Return 1 if there is a defect."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--inputs", type=int, default=5000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    asked = parser.parse_args()
    codes, defects = Counter[str](), 0
    with tempfile.TemporaryDirectory() as place:
        corpus = Corpus(Path(place))
        for seed in range(asked.first, asked.first + asked.inputs):
            case, code, faults = faults_of(corpus, seed)
            codes[f"{code} of a judge" if case.judges else str(code)] += 1
            defects += bool(faults)
            for fault in faults:
                print(f"seed {seed}: {' '.join(case.arguments)[:300]!r}\n    {fault}", flush=True)
    print(f"{asked.inputs} inputs: {defects} defects; exit codes: {dict(codes)}")
    return int(defects > 0)


if __name__ == "__main__":
    sys.exit(main())
