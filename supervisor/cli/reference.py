"""Write tables of docs/reference/cli.md, json.md and docs/explanation/scale.md; `make docs` runs it.

With --check, only compare them. A table of flags stands between `<!-- flags: NAME -->` and `<!-- end -->`, those of
`nodeplane size` between `<!-- load -->` or `<!-- costs -->` and `<!-- end -->`. Types of outputs follow
`<!-- outputs -->`.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from supervisor.base.options import FLAGS, Flag
from supervisor.cli.outputs import OUTPUTS, meanings, structs_of
from supervisor.size.command import load_table
from supervisor.size.tables import cost_tables

DOCS = Path(__file__).parents[2] / "docs"
PAGE, JSON_PAGE = DOCS / "reference" / "cli.md", DOCS / "reference" / "json.md"
SIZE_PAGE = DOCS / "explanation" / "scale.md"
OUTPUTS_BEGIN = "<!-- outputs -->\n"
SIZE_TABLE = re.compile(r"(<!-- (load|costs) -->)\n.*?(?=<!-- end -->)", re.DOTALL)
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


SIZE_TABLES = {"load": load_table, "costs": cost_tables}


def with_size(page: str) -> str:
    """Return the page with the flags of `nodeplane size` as declared, and its costs as measured."""
    return SIZE_TABLE.sub(lambda found: "\n".join([found[1], *SIZE_TABLES[found[2]](), ""]), page)


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
    schema, texts = msgspec.json.schema(struct)["$defs"][struct.__name__], meanings(struct)
    rows = [f"| `{name}` | {type_text(kind)} | {texts.get(name, '')} |" for name, kind in schema["properties"].items()]
    about = [" ".join(schema["description"].split()), ""] if schema.get("description") else []
    return [f"## {struct.__name__}", "", *about, "| field | type | meaning |", "|---|---|---|", *rows]


def type_text(kind: dict[str, Any]) -> str:
    """Return the words for a property of a JSON schema."""
    if "$ref" in kind:
        return _link(kind["$ref"].rpartition("/")[2])
    if "anyOf" in kind:
        return " or ".join(type_text(schema) for schema in kind["anyOf"])
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
    pages = {PAGE: with_tables, JSON_PAGE: with_outputs, SIZE_PAGE: with_size}
    return write_pages({path: render(path.read_text()) for path, render in pages.items()}, words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
