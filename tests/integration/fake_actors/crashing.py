"""Never gets ready."""

import sys


def main(argv: list[str] | None = None) -> None:
    print("the disk ate my homework", file=sys.stderr)
    sys.exit(3)
