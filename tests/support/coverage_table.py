"""`make coverage`: the lines that no test ran, by actor and folder, of the data that coverage has collected.

python -m tests.support.coverage_table          # the table
python -m tests.support.coverage_table FOLDER   # and below it the never-run lines of each file of a folder
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from protocols.node.cpulist import format_list
from supervisor.base.terminal import table

ROOT = Path(__file__).parents[2]
HEADER = ("FOLDER", "LINES", "NEVER RUN", "RUN")


class Measured(NamedTuple):
    """A file, with the numbers of its lines of code and of those that never ran."""

    path: str
    lines: int
    missing: Sequence[int]

    @property
    def folder(self) -> str:
        """actors/NAME/FOLDER, or two levels elsewhere."""
        parts = Path(self.path).parent.parts
        return "/".join(parts[: 3 if parts[0] == "actors" else 2])


def rows(files: Iterable[Measured]) -> list[tuple[str, ...]]:
    """Return a row of each folder and, before its folders, of each actor; the last one is of all."""
    sums: dict[str, list[int]] = {}
    for file in files:
        actor = "/".join(file.folder.split("/")[:2])
        for name in dict.fromkeys((actor, file.folder, "~")):
            found = sums.setdefault(name, [0, 0])
            found[0] += file.lines
            found[1] += len(file.missing)
    named = sorted(sums.items())
    return [(_indented(name), str(lines), str(missing), _percent(lines, missing)) for name, (lines, missing) in named]


def _indented(name: str) -> str:
    return "all" if name == "~" else f"{'  ' * (name.count('/') - 1)}{name}"


def _percent(lines: int, missing: int) -> str:
    return f"{100 * (lines - missing) / lines:.1f} %" if lines else "-"


def measured() -> list[Measured]:
    """Combine the data of all processes, and read it."""
    from coverage import Coverage

    coverage = Coverage(config_file=str(ROOT / "pyproject.toml"))
    coverage.combine(keep=True)
    found = []
    for path in sorted(coverage.get_data().measured_files()):
        _, lines, _, missing, _ = coverage.analysis2(path)
        found.append(Measured(str(Path(path).relative_to(ROOT)), len(lines), missing))
    return found


def main(words: Sequence[str]) -> int:
    files = measured()
    print(table(HEADER, rows(files)))
    for file in files if words else ():
        if file.missing and file.path.startswith(tuple(words)):
            print(f"{file.path}:{format_list(file.missing)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
