"""Clients that never read, never finish or never go away, and API processes that come and go under an open watch."""

import contextlib
import json
import os
import signal
import socket
import ssl
import time
from collections.abc import Iterator

import grpc
import pytest

from protocols.wire import podresources_v1_pb2 as wire
from protocols.wire import podresources_v1_pb2_grpc as stubs
from tests.support.mistreat import pids
from tests.support.plane import Plane, until
from tests.support.plane_client import connect
from tests.support.podwatch import OPTIONS
from tests.support.witnesses import CONFIGMAPS, Witnesses, lives, pod, with_devices

STALE_CLIENTS = 30
PROMPT_S = 5.0
"""An event reaches a healthy watcher within this, whatever the others do."""


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """A plane with a device plugin; in the end its replicas agree."""
    with Plane() as plane:
        yield with_devices(plane)
        plane.settled()


def test_watchers_that_never_read_delay_nobody(plane: Plane) -> None:
    before = lives(plane)
    with Witnesses(plane) as witnesses, contextlib.ExitStack() as held:
        for _ in range(5):
            held.enter_context(mute_watch(plane, CONFIGMAPS))
        for _ in range(5):
            held.enter_context(mute_resource_watch(plane))
        worst = max(seconds_until_seen(plane, witnesses, f"large-{number}") for number in range(60))
        assert worst < PROMPT_S
    assert lives(plane) == before


def test_half_open_connections_delay_nobody_not_even_the_end(plane: Plane) -> None:
    before = lives(plane)
    with contextlib.ExitStack() as held:
        for _ in range(STALE_CLIENTS):
            held.enter_context(half_request(plane, handshake=False))
            held.enter_context(half_request(plane, handshake=True))
            held.enter_context(mute_resource_watch(plane))
        with Witnesses(plane):
            pass
        assert lives(plane) == before
        began = time.monotonic()
        plane.down()
        assert time.monotonic() - began < 20
    plane.up()
    until("the plugin is back", lambda: plane.nodeplane("devices").count("example.com/gpu") == 4)


def test_scaling_to_three_and_back_under_an_open_watch(plane: Plane) -> None:
    with Witnesses(plane):
        plane.nodeplane("scale", "watcher", "3")
        watchers = until("three of them", lambda: serving(plane, 3))
        os.kill(pids(plane, watchers[:1])[watchers[0]], signal.SIGKILL)
        plane.apply(pod("visitor", devices=2))
        plane.pod_ready("visitor")
        until("three again", lambda: serving(plane, 3))
        plane.nodeplane("scale", "watcher", "1")
        until("one left", lambda: serving(plane, 1))
        plane.kubectl("delete", "pod", "visitor")


def serving(plane: Plane, count: int) -> list[str]:
    actors = plane.status()
    names = [name for name, actor in actors.items() if name.startswith("apiserver") and actor["state"] == "live"]
    return names if len(names) == count else []


def seconds_until_seen(plane: Plane, witnesses: Witnesses, name: str) -> float:
    """From the acknowledgement of a large write to its event at the healthy watcher."""
    connection = connect(plane.root)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"x": "x" * 200_000}}
    try:
        connection.request("POST", CONFIGMAPS, json.dumps(body), {"Content-Type": "application/json"})
        with connection.getresponse() as answer:
            told = answer.read()
        assert answer.status == 201, told
    finally:
        connection.close()
    began = time.monotonic()
    until(name, lambda: any(event.name == name for event in witnesses.configmaps.events[-20:]), every=0.002)
    return time.monotonic() - began


@contextlib.contextmanager
def mute_watch(plane: Plane, path: str) -> Iterator[None]:
    """An open watch whose client reads nothing, with room for next to nothing."""
    connection = connect(plane.root)
    connection.connect()
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.request("GET", f"{path}?watch=true&resourceVersion=0")
    yield
    connection.close()


@contextlib.contextmanager
def mute_resource_watch(plane: Plane) -> Iterator[None]:
    options = [*OPTIONS, ("grpc.http2.lookahead_bytes", 1)]
    with grpc.insecure_channel(f"unix:{plane.root}/kubelet/pod-resources/kubelet.sock", options) as channel:
        call = stubs.PodResourcesListerStub(channel).ListAndWatch(wire.ListAndWatchPodResourcesRequest())
        yield
        call.cancel()


@contextlib.contextmanager
def half_request(plane: Plane, handshake: bool) -> Iterator[None]:
    """A client that went silent in the middle: of its handshake, or of its request."""
    whole = connect(plane.root)
    raw = socket.create_connection((whole.host, whole.port), timeout=30)
    if not handshake:
        with raw:
            yield
        return
    context = ssl.create_default_context(cafile=str(plane.root / "pki" / "ca.crt"))
    with context.wrap_socket(raw, server_hostname=whole.host) as tls:
        tls.sendall(b"POST " + CONFIGMAPS.encode() + b" HTTP/1.1\r\nContent-Length: 100\r\n\r\n{")
        yield
