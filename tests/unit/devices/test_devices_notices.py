"""Notices of the device manager, as a follower gets them across restarts."""

from types import SimpleNamespace
from typing import Any, cast

from prometheus_client import CollectorRegistry

from actors.devices.model.metrics import DeviceMetrics
from actors.devices.streams import DeviceStreams, DeviceStreamsOptions
from protocols.bus import Item, Op, Replica, StateSource
from protocols.lifecycle.devices.inventory import Inventory
from protocols.lifecycle.devices.ledger import Ledger
from protocols.messages.allocation_history import AllocationHistory
from protocols.messages.devices import CHECKPOINT, NOTICES, NodeNotice


def notices_of(epoch: int, *notices: NodeNotice) -> list[tuple[str, NodeNotice]]:
    """Return the snapshot that a follower gets of an incarnation which published these notices."""
    sources: dict[str, StateSource] = {}

    def own(name: str, source: StateSource, ring: int = 0) -> object:
        sources[name] = source
        return SimpleNamespace(publish=lambda *event: None, set_mark=lambda mark: None)

    bus = SimpleNamespace(own=own, epoch=epoch)
    metrics, history = DeviceMetrics(CollectorRegistry()), AllocationHistory(1)
    streams = DeviceStreams(DeviceStreamsOptions(cast("Any", bus), Inventory(), Ledger(), metrics, history))
    for notice in notices:
        streams.notice(notice)
    items = cast("list[Item]", sources[NOTICES].snapshot())
    return [(item.key, cast("NodeNotice", item.value)) for item in items]


def test_checkpoint_lost_twice_gives_a_second_notice() -> None:
    lost, heard = NodeNotice("Warning", CHECKPOINT, "checkpoint is corrupt"), list[str]()
    follower = Replica[NodeNotice](lambda op, key, new, old: heard.append(op.name))
    follower.on_snapshot(notices_of(7, lost), 0)
    follower.on_snapshot(notices_of(8, lost), 0)
    assert heard.count(Op.UPSERT.name) == 2
