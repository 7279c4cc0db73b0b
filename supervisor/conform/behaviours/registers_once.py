"""The plugin registers once with each kubelet."""

import asyncio
from collections import Counter

from supervisor.conform.sources import HANDLER, SERVER
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import Failed

PHASE = "restarts"
RULE = (
    "Each Register makes another connection, which replaces the last one of the resource; when the replaced one ends,"
    " kubelets up to 1.36 take the resource for gone."
)
SOURCE = f"{SERVER}; {HANDLER}; kubernetes/kubernetes issues 121994, 124716 and 127803"
ADVICE = "Register once for each kubelet.sock: compare its inode number, and ignore what you have made yourself."
WATCHED_S = 1.5


async def run(stage: Stage) -> None:
    """Restart the kubelet, and count."""
    await stage.plugins()
    await stage.restart_kubelet()
    await stage.returns()
    await asyncio.sleep(WATCHED_S)
    counts = Counter(attempt.name for attempt in stage.kubelet.attempts if attempt.peer)
    for name, count in counts.items():
        if count > 1:
            raise Failed(f"{name} was registered {count} times with one kubelet")
