"""Write the tables of docs/reference/cli.md and json.md; with --check, only compare them. `make docs` runs it.

A table of flags stands between `<!-- flags: NAME -->` and `<!-- end -->`; types of outputs follow `<!-- outputs -->`.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from supervisor.base.options import FLAGS, Flag
from supervisor.cli.outputs import OUTPUTS, meanings, structs_of

DOCS = Path(__file__).parents[2] / "docs" / "reference"
PAGE, JSON_PAGE = DOCS / "cli.md", DOCS / "json.md"
OUTPUTS_BEGIN = "<!-- outputs -->\n"
TABLE = re.compile(r"(<!-- flags: (\w+) -->)\n.*?(?=<!-- end -->)", re.DOTALL)


def _plane_table() -> list[str]:
    rows = [
        f"| `{flag.option} {flag.metavar}` | {flag.default} | {_meaning(flag)} |"
        for flag in FLAGS.values()
        if not flag.kubelet
    ]
    return ["| flag | default | meaning |", "|---|---|---|", *rows]


def kubelet_table() -> list[str]:
    """Return the flags that stand for a setting of kubelet."""
    rows = [
        f"| `{flag.option} {flag.metavar}` | {flag.kubelet} | {flag.default} | {_meaning(flag)} |"
        for flag in FLAGS.values()
        if flag.kubelet
    ]
    return ["| flag | kubelet's configuration | default | meaning |", "|---|---|---|---|", *rows]


def _meaning(flag: Flag) -> str:
    return f"{flag.help}; {flag.page}" if flag.page else flag.help


TABLES = {"plane": _plane_table, "kubelet": kubelet_table}


def with_tables(page: str) -> str:
    """Return the page with its tables as declared."""
    return TABLE.sub(lambda found: "\n".join([found[1], *TABLES[found[2]](), ""]), page)


def with_outputs(page: str) -> str:
    """Return the page with the outputs of all commands and their types."""
    lines = ["| `nodeplane ... -o json` | prints | of type |", "|---|---|---|"]
    structs: dict[str, type[msgspec.Struct]] = {}
    for name, output in OUTPUTS.items():
        lines.append(f"| `{name}` | {output.shape} | {_link(output.item.__name__)} |")
        for struct in structs_of(output.whole):
            if structs.setdefault(struct.__name__, struct) is not struct:
                raise ValueError(f"two types of outputs are called {struct.__name__}; rename one")
    for _, struct in sorted(structs.items()):
        lines += ["", *_section(struct)]
    return "\n".join([page.partition(OUTPUTS_BEGIN)[0] + OUTPUTS_BEGIN.strip(), *lines, ""])


def _section(struct: type[msgspec.Struct]) -> list[str]:
    made, texts = msgspec.json.schema(struct)["$defs"][struct.__name__], meanings(struct)
    rows = [f"| `{name}` | {type_text(kind)} | {texts.get(name, '')} |" for name, kind in made["properties"].items()]
    about = [" ".join(made["description"].split()), ""] if made.get("description") else []
    return [f"## {struct.__name__}", "", *about, "| field | type | meaning |", "|---|---|---|", *rows]


def type_text(kind: dict[str, Any]) -> str:
    """Return the words for a property of a JSON schema."""
    if "$ref" in kind:
        return _link(kind["$ref"].rpartition("/")[2])
    if "anyOf" in kind:
        return " or ".join(type_text(each) for each in kind["anyOf"])
    if kind.get("type") == "array":
        return f"list of {type_text(kind.get('items') or {})}"
    if kind.get("type") == "object":
        values = kind.get("additionalProperties")
        return f"map of {type_text(values)}" if isinstance(values, dict) else "object"
    return str(kind.get("type", "any"))


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def write_pages(made: Mapping[Path, str], words: Sequence[str]) -> int:
    """Write the files that are not as made; with `--check` among the words, only name them and return 1."""
    check = "--check" in words
    stale = {path: text for path, text in made.items() if not path.exists() or path.read_text() != text}
    for path, text in stale.items():
        if check:
            print(f"{path} is out of date; write it with `make docs`", file=sys.stderr)
        else:
            path.write_text(text)
    return int(check and bool(stale))


def main(words: list[str]) -> int:
    return write_pages({PAGE: with_tables(PAGE.read_text()), JSON_PAGE: with_outputs(JSON_PAGE.read_text())}, words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
