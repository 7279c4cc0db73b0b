"""Write the tables of flags in docs/reference/cli.md; with --check, only compare them. `make docs` runs it.

A table stands between `<!-- flags: NAME -->` and `<!-- end -->`.
"""

import re
import sys
from pathlib import Path

from supervisor.base.options import FLAGS, Flag

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
TABLE = re.compile(r"(<!-- flags: (\w+) -->)\n.*?(?=<!-- end -->)", re.DOTALL)


def plane_table() -> list[str]:
    rows = [
        f"| `{flag.option} {flag.metavar}` | {flag.default} | {meaning(flag)} |"
        for flag in FLAGS.values()
        if not flag.kubelet
    ]
    return ["| flag | default | meaning |", "|---|---|---|", *rows]


def kubelet_table() -> list[str]:
    """Return the flags that stand for a setting of kubelet."""
    rows = [
        f"| `{flag.option} {flag.metavar}` | {flag.kubelet} | {flag.default} | {meaning(flag)} |"
        for flag in FLAGS.values()
        if flag.kubelet
    ]
    return ["| flag | kubelet's configuration | default | meaning |", "|---|---|---|---|", *rows]


def meaning(flag: Flag) -> str:
    return f"{flag.help}; {flag.page}" if flag.page else flag.help


TABLES = {"plane": plane_table, "kubelet": kubelet_table}


def with_tables(page: str) -> str:
    """Return the page with its tables as declared."""
    return TABLE.sub(lambda found: "\n".join([found[1], *TABLES[found[2]](), ""]), page)


def main(words: list[str]) -> int:
    current = PAGE.read_text()
    wanted = with_tables(current)
    if "--check" not in words:
        PAGE.write_text(wanted)
    elif wanted != current:
        print(f"{PAGE} is out of date; write it with `make docs`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
