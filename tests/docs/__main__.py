"""`python -m tests.docs`: which blocks of the documentation run, and which do not, with what they need."""

import sys

from tests.docs.blocks import NEEDS, PAGES, Mistake, Use, read


def summary() -> str:
    """One line for each block that does not run, and a line that counts all."""
    blocks = [block for path in PAGES for block in read(path)]
    not_run = [block for block in blocks if block.use is Use.NEED]
    lines = [f"{block.place}: {block.language}: {block.title.removeprefix(NEEDS).strip()}" for block in not_run]
    counts = {use: sum(block.use is use for block in blocks) for use in Use}
    counted = ", ".join(f"{number} {use}" for use, number in counts.items())
    lead = ["Blocks that do not run, with what they need:", *lines, ""] if lines else []
    return "\n".join([*lead, f"{len(blocks)} blocks on {len(PAGES)} pages: {counted}"])


def main() -> int:
    """Print the summary. The exit code is 1 if a block is of no known sort."""
    try:
        print(summary())
    except Mistake as mistake:
        print(mistake, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
