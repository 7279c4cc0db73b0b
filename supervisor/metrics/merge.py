"""Many Prometheus text pages made one: each family once, an `actor` label where samples would clash."""

import re
from collections.abc import Mapping

import msgspec

OURS = ("nodeplane_", "process_", "python_")
SUFFIXES = ("_bucket", "_count", "_sum", "_total", "_created", "_info", "_gcount", "_gsum")
SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?P<labels>\{.*\})?\s+(?P<value>\S+.*)$")


class Sample(msgspec.Struct):
    actor: str
    name: str
    labels: str
    """Inside of the braces, as it came."""
    value: str


class Family(msgspec.Struct):
    name: str
    help: str = ""
    type: str = ""
    samples: list[Sample] = []


def merge(pages: Mapping[str, str]) -> str:
    """One page of all. Names of our own and per-process ones always say the actor; upstream's names keep
    their exact labels unless two actors expose the same sample."""
    families: dict[str, Family] = {}
    for actor, text in pages.items():
        _read(actor, text, families)
    return "".join(_render(family) for family in families.values() if family.samples)


def _read(actor: str, text: str, families: dict[str, Family]) -> None:
    for line in text.splitlines():
        if line.startswith("# HELP ") or line.startswith("# TYPE "):
            _describe(line, families)
        elif line and not line.startswith("#") and (match := SAMPLE.match(line)):
            name = match["name"]
            labels = (match["labels"] or "{}")[1:-1].rstrip(",")
            _family_of(name, families).samples.append(Sample(actor, name, labels, match["value"]))


def _describe(line: str, families: dict[str, Family]) -> None:
    _, kind, name, *rest = line.split(" ", 3)
    family = families.setdefault(name, Family(name))
    text = rest[0] if rest else ""
    if kind == "HELP":
        family.help = family.help or text
    else:
        family.type = family.type or text


def _family_of(sample: str, families: dict[str, Family]) -> Family:
    if sample in families:
        return families[sample]
    for suffix in SUFFIXES:
        base = sample.removesuffix(suffix)
        if base != sample and base in families:
            return families[base]
    return families.setdefault(sample, Family(sample, type="untyped"))


def _render(family: Family) -> str:
    seen: dict[tuple[str, str], set[str]] = {}
    for sample in family.samples:
        seen.setdefault((sample.name, sample.labels), set()).add(sample.actor)
    lines = [f"# HELP {family.name} {family.help}"] if family.help else []
    lines.append(f"# TYPE {family.name} {family.type or 'untyped'}")
    for sample in family.samples:
        clash = len(seen[sample.name, sample.labels]) > 1
        lines.append(_line(sample, family.name.startswith(OURS) or clash))
    return "\n".join(lines) + "\n"


def _line(sample: Sample, say_actor: bool) -> str:
    labels = sample.labels
    if say_actor and not re.search(r'(^|,)\s*actor="', labels):
        labels = f'{labels},actor="{sample.actor}"' if labels else f'actor="{sample.actor}"'
    return f"{sample.name}{{{labels}}} {sample.value}" if labels else f"{sample.name} {sample.value}"
