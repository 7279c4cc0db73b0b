"""The metrics page: the supervisor's own metrics, merged with those of every process of the plane."""

import asyncio
import re
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from protocols.bus import Bus, BusError
from protocols.messages.supervisor import METRICS, Empty, MetricsText
from protocols.process.families import TASK_FAILURES, CounterFamily, Declared, GaugeFamily
from protocols.process.tasks import FAILURES
from supervisor.tree.states import SERVING
from supervisor.tree.tree import Tree

ANSWER_S = 1.0

LABELS = ("actor",)
UP = GaugeFamily("nodeplane_actor_up", "1 while the actor is ready, else 0.", LABELS)
RESTARTS = CounterFamily(
    "nodeplane_actor_restarts_total", "Restarts of the actor since the supervisor started.", LABELS
)
UPTIME = GaugeFamily("nodeplane_supervisor_uptime_seconds", "Seconds since the supervisor started.")
SCRAPE_UP = GaugeFamily("nodeplane_scrape_up", "1 if the process returned its metrics, else 0.", LABELS)
CERTIFICATES = GaugeFamily(
    "nodeplane_certificates_expiration_timestamp_seconds",
    "Unix time at which the first certificate of the plane, or of a joined node, expires.",
)


def own_text(tree: Tree, started_at: float, certificates_end: float | None = None) -> str:
    """Return this supervisor's metrics, made without the client library, which would triple its memory.

    `certificates_end`: Unix time at which the first certificate expires, None if the supervisor has none.
    """
    up = [_sample(UP.name, name, int(c.state in SERVING)) for name, c in tree.children.items()]
    restarts = [_sample(RESTARTS.name, name, c.restarts) for name, c in tree.children.items()]
    uptime = f"{UPTIME.name} {time.monotonic() - started_at:.3f}"
    return "\n".join(
        (
            *_head(UP),
            *up,
            *_head(RESTARTS),
            *restarts,
            *_head(UPTIME),
            uptime,
            *_certificates(certificates_end),
            *_head(TASK_FAILURES),
            *(f'{TASK_FAILURES.name}{{task="{kind}"}} {count}' for kind, count in FAILURES.items()),
            "",
        )
    )


async def whole_page(bus: Bus, own_name: str, own: str, run_dir: Path) -> str:
    """Return one page of all processes; nodeplane_scrape_up is 0 for those that do not answer in time."""
    others = [name for name in _names(run_dir) if name != own_name]
    texts = await asyncio.gather(*(_ask(bus, name) for name in others))
    pages = {own_name: own} | {name: text for name, text in zip(others, texts, strict=True) if text}
    scraped = [_sample(SCRAPE_UP.name, name, int(bool(text))) for name, text in zip(others, texts, strict=True)]
    about = "\n".join((*_head(SCRAPE_UP), *scraped, ""))
    return merge(pages | {"": about})


def _names(run_dir: Path) -> list[str]:
    return sorted(path.stem for path in run_dir.glob("*.rpc"))


async def _ask(bus: Bus, name: str) -> str:
    try:
        return (await bus.call(name, METRICS, Empty(), MetricsText, timeout=ANSWER_S, idempotent=True)).text
    except BusError:
        return ""


def _certificates(end: float | None) -> tuple[str, ...]:
    if end is None:
        return ()
    return (*_head(CERTIFICATES), f"{CERTIFICATES.name} {end:.0f}")


def _head(family: Declared) -> tuple[str, str]:
    return f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}"


def _sample(name: str, actor: str, value: int) -> str:
    return f'{name}{{actor="{actor}"}} {value}'


OURS = ("nodeplane_", "process_", "python_")
SUFFIXES = ("_bucket", "_count", "_sum", "_total", "_created", "_info", "_gcount", "_gsum")
SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?P<labels>\{.*\})?\s+(?P<value>\S+.*)$")


class _Sample(msgspec.Struct):
    actor: str
    name: str
    labels: str
    """The text inside the braces."""
    value: str


class _Family(msgspec.Struct):
    name: str
    help: str = ""
    type: str = ""
    samples: list[_Sample] = []


def merge(pages: Mapping[str, str]) -> str:
    """Merge pages, each family once.

    Metrics of our own and of processes get an `actor` label; upstream's metrics only if two actors have the same
    sample.
    """
    families: dict[str, _Family] = {}
    for actor, text in pages.items():
        _read(actor, text, families)
    return "".join(_render(family) for family in families.values() if family.samples)


def _read(actor: str, text: str, families: dict[str, _Family]) -> None:
    for line in text.split("\n"):  # a label's value may hold other ends of lines
        if line.startswith("# HELP ") or line.startswith("# TYPE "):
            _describe(line, families)
        elif line and not line.startswith("#") and (match := SAMPLE.match(line)):
            name = match["name"]
            labels = (match["labels"] or "{}")[1:-1].rstrip(",")
            _family_of(name, families).samples.append(_Sample(actor, name, labels, match["value"]))


def _describe(line: str, families: dict[str, _Family]) -> None:
    _, kind, name, *rest = line.split(" ", 3)
    family = families.setdefault(name, _Family(name))
    text = rest[0] if rest else ""
    if kind == "HELP":
        family.help = family.help or text
    else:
        family.type = family.type or text


def _family_of(sample: str, families: dict[str, _Family]) -> _Family:
    if sample in families:
        return families[sample]
    for suffix in SUFFIXES:
        base = sample.removesuffix(suffix)
        if base != sample and base in families:
            return families[base]
    return families.setdefault(sample, _Family(sample, type="untyped"))


def _render(family: _Family) -> str:
    seen: dict[tuple[str, str], set[str]] = {}
    for sample in family.samples:
        seen.setdefault((sample.name, sample.labels), set()).add(sample.actor)
    lines = [f"# HELP {family.name} {family.help}"] if family.help else []
    lines.append(f"# TYPE {family.name} {family.type or 'untyped'}")
    for sample in family.samples:
        clash = len(seen[sample.name, sample.labels]) > 1
        lines.append(_line(sample, family.name.startswith(OURS) or clash))
    return "\n".join(lines) + "\n"


def _line(sample: _Sample, label_actor: bool) -> str:
    labels = sample.labels
    if label_actor and not re.search(r'(^|,)\s*actor="', labels):
        labels = f'{labels},actor="{sample.actor}"' if labels else f'actor="{sample.actor}"'
    return f"{sample.name}{{{labels}}} {sample.value}" if labels else f"{sample.name} {sample.value}"
