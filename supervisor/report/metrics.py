"""The metrics page: the supervisor's own metrics, merged with those of every process of the plane."""

import asyncio
import re
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from protocols.bus import Bus, BusError
from protocols.messages.supervisor import METRICS, Empty, MetricsText
from protocols.process.tasks import FAILURES
from supervisor.tree.states import SERVING
from supervisor.tree.tree import Tree

ANSWER_S = 1.0


def own_text(tree: Tree, started_at: float, certificates_end: float | None = None) -> str:
    """Return this supervisor's metrics, made without the client library, which would triple its memory.

    `certificates_end`: Unix time at which the first certificate expires, None if the supervisor has none.
    """
    up = [_sample("nodeplane_actor_up", name, int(c.state in SERVING)) for name, c in tree.children.items()]
    restarts = [_sample("nodeplane_actor_restarts_total", name, c.restarts) for name, c in tree.children.items()]
    uptime = f"nodeplane_supervisor_uptime_seconds {time.monotonic() - started_at:.3f}"
    return "\n".join(
        (
            *_head("nodeplane_actor_up", "gauge", "1 when the actor is ready."),
            *up,
            *_head("nodeplane_actor_restarts_total", "counter", "Restarts of the actor in this supervisor's life."),
            *restarts,
            *_head("nodeplane_supervisor_uptime_seconds", "gauge", "Seconds since the supervisor started."),
            uptime,
            *_certificates(certificates_end),
            *_head("nodeplane_task_failures_total", "counter", "Tasks that failed, by kind."),
            *(f'nodeplane_task_failures_total{{task="{kind}"}} {count}' for kind, count in FAILURES.items()),
            "",
        )
    )


async def whole_page(bus: Bus, own_name: str, own: str, run_dir: Path) -> str:
    """Return one page of all processes; nodeplane_scrape_up is 0 for those that do not answer in time."""
    others = [name for name in _names(run_dir) if name != own_name]
    texts = await asyncio.gather(*(_ask(bus, name) for name in others))
    pages = {own_name: own} | {name: text for name, text in zip(others, texts, strict=True) if text}
    scraped = [_sample("nodeplane_scrape_up", name, int(bool(text))) for name, text in zip(others, texts, strict=True)]
    about = "\n".join((*_head("nodeplane_scrape_up", "gauge", "1 when the process gave its metrics."), *scraped, ""))
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
    name = "nodeplane_certificates_expiration_timestamp_seconds"
    return (*_head(name, "gauge", "Unix time at which the first certificate expires."), f"{name} {end:.0f}")


def _head(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"


def _sample(name: str, actor: str, value: int) -> str:
    return f'{name}{{actor="{actor}"}} {value}'


OURS = ("nodeplane_", "process_", "python_")
SUFFIXES = ("_bucket", "_count", "_sum", "_total", "_created", "_info", "_gcount", "_gsum")
SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?P<labels>\{.*\})?\s+(?P<value>\S+.*)$")


class Sample(msgspec.Struct):
    actor: str
    name: str
    labels: str
    """The text inside the braces."""
    value: str


class Family(msgspec.Struct):
    name: str
    help: str = ""
    type: str = ""
    samples: list[Sample] = []


def merge(pages: Mapping[str, str]) -> str:
    """Merge pages, each family once.

    Metrics of our own and of processes get an `actor` label; upstream's metrics only if two actors have the same
    sample.
    """
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


def _line(sample: Sample, label_actor: bool) -> str:
    labels = sample.labels
    if label_actor and not re.search(r'(^|,)\s*actor="', labels):
        labels = f'{labels},actor="{sample.actor}"' if labels else f'actor="{sample.actor}"'
    return f"{sample.name}{{{labels}}} {sample.value}" if labels else f"{sample.name} {sample.value}"
