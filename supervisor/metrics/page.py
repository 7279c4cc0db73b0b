"""The supervisor's own figures, and the page that joins everybody's."""

import asyncio
import time
from pathlib import Path

from protocols.bus import Bus, BusError
from protocols.messages.supervisor import METRICS, Empty, MetricsText
from supervisor.metrics.merge import merge
from supervisor.tree.tree import Tree
from supervisor.tree.types import SERVING

ANSWER_S = 1.0


def own_text(tree: Tree, started_at: float) -> str:
    """Prometheus text of this supervisor; families without a client library, which would triple its memory."""
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
            "",
        )
    )


async def whole_page(bus: Bus, own_name: str, own: str, run_dir: Path) -> str:
    """One page of every process that answers within the deadline; who does not is missing, and says so."""
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


def _head(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"


def _sample(name: str, actor: str, value: int) -> str:
    return f'{name}{{actor="{actor}"}} {value}'
