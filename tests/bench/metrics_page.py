"""Print the bytes of each family on the metrics page of an empty plane: python -m tests.bench.metrics_page [FILE]."""

import json
import re
import sys
import time
import urllib.request
from collections import Counter
from pathlib import Path

from tests.support.plane import Plane

SETTLED_S = 15.0
"""Informers have listed, and the first heartbeats and leases are written."""
FAMILY = re.compile(r"^# (?:HELP|TYPE) (\S+)")


def page() -> str:
    with Plane() as plane:
        time.sleep(SETTLED_S)
        url = json.loads(plane.nodeplane("status", "-o", "json"))["endpoints"]["metrics"]
        with urllib.request.urlopen(url, timeout=30) as answer:
            return str(answer.read().decode())


def by_family(text: str) -> tuple[Counter[str], Counter[str]]:
    """Return bytes and samples by family; each family is one block on a page."""
    sizes, samples, family = Counter[str](), Counter[str](), ""
    for line in text.splitlines(keepends=True):
        if found := FAMILY.match(line):
            family = found[1]
        else:
            samples[family] += 1
        sizes[family] += len(line)
    return sizes, samples


def main() -> None:
    text = Path(sys.argv[1]).read_text() if len(sys.argv) > 1 else page()
    sizes, samples = by_family(text)
    print(f"{len(text):>8} {sum(samples.values()):>6}  all")
    for family, size in sizes.most_common():
        print(f"{size:>8} {samples[family]:>6}  {family}")


if __name__ == "__main__":
    main()
