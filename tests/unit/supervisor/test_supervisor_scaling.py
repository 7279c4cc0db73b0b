"""Orders to scale that overlap."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from protocols.bus import Bus
from protocols.messages.supervisor import SCALE, ScaleActor
from supervisor.base.groups import NODE, WATCHER, ChildSpec, additional_node, child, watcher
from supervisor.plane.control import Control, ControlOptions
from supervisor.tree.tree import Tree

ACTORS = {WATCHER: (watcher, 0), NODE: (additional_node, 2)}


class _Tree:
    """Children whose end takes a few turns of the loop."""

    def __init__(self, specs: Iterable[ChildSpec]) -> None:
        self.children = {spec.instance: SimpleNamespace(spec=spec) for spec in specs}

    async def stop(self, names: Sequence[str], deadline: float = 0.0) -> None:
        assert all(name in self.children for name in names)
        for _ in range(9 if names else 0):
            await asyncio.sleep(0)

    def forget(self, name: str) -> None:
        self.children.pop(name, None)

    def add(self, spec: ChildSpec) -> None:
        self.children[spec.instance] = SimpleNamespace(spec=spec)


class _Bus:
    def __init__(self) -> None:
        self.served: dict[str, Any] = {}

    def serve(self, method: str, request: type, handler: Any) -> None:
        self.served[method] = handler


@pytest.mark.parametrize("actor", [WATCHER, NODE])
async def test_scale_while_the_surplus_ends_gives_the_number_of_the_last_order(tmp_path: Path, actor: str) -> None:
    make, first = ACTORS[actor]
    tree, bus = _Tree([child("cri", NODE), *map(make, range(first, 4))]), _Bus()
    layout = SimpleNamespace(run=tmp_path)
    options = ControlOptions(
        name="plane",
        pid=1,
        settings=cast(
            Any, SimpleNamespace(layout=layout, joined=False, runtime_embedded=True, check_node_paths=Mock())
        ),
        started_at=time.monotonic(),
        metrics=str,
        own_metrics=str,
        stop=lambda containers: None,
        stop_nodes=tree.stop,
    )
    Control(options, cast(Bus, bus), cast(Tree, tree))
    orders = (bus.served[SCALE](ScaleActor(actor=actor, count=count), None) for count in (1, 3))
    await asyncio.gather(*orders)
    running = [spec for spec in tree.children.values() if spec.spec.actor == make(first).actor]
    assert len(running) == (3 if actor == WATCHER else 2), "two further nodes beside the first"
