"""The actor's first publication, with input streams fed by hand."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from actors.health.actor import HealthActor
from protocols.bus import Event, Op
from protocols.lifecycle.devices import status_table
from protocols.messages.health import HeldContainer, HeldResource, PodHeld
from protocols.messages.podworker import EndedPod
from tests.support.waiting import until_async

HELD = PodHeld((HeldContainer("a", (HeldResource("claim:gpu", ("gpu.example.com/n1/gpu-0",)),)),))


def health_actor(published: list[str]) -> HealthActor:
    """Return an actor that nobody else runs beside; uids of published pods go to the list."""
    certificate = Path("/nowhere")
    context = SimpleNamespace(
        settings=SimpleNamespace(
            claim_health_names="request", device_health_rate=1.0, node_name="n1", api_url="https://127.0.0.1:1"
        ),
        layout=SimpleNamespace(client_cert=lambda user: (certificate, certificate), ca_cert=certificate),
        registry=CollectorRegistry(),
        bus=SimpleNamespace(own=lambda *stream: SimpleNamespace(publish=lambda op, uid, status: published.append(uid))),
        ready=lambda note: None,
    )
    return HealthActor(cast("Any", context))


async def test_devices_of_a_finished_pod_are_published_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown is held back for a moment: without a timer it waited for the next change of any other pod."""
    monkeypatch.setattr(status_table, "FINISHED_UNKNOWN_HOLD_S", 0.01)
    published = list[str]()
    actor = health_actor(published)
    actor._inputs._ended_pods.on_event(Event(Op.UPSERT, "u1", EndedPod("u1", "ns", "p", HELD)))

    async def synced(seconds: float) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(actor._inputs, "wait_synced", synced)
    await actor._publish_first()
    await until_async("the pod is published", lambda: published == ["u1"])
    await actor.stop()
