"""Clients that never finish or never go away, on a whole plane, and its end under them."""

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator

import grpc

from protocols.wire import podresources_v1_pb2 as wire
from tests.support.plane import Plane, until
from tests.support.plane_client import connect
from tests.support.podwatch import OPTIONS
from tests.support.shared_fixtures import plane_with_devices
from tests.support.stubs import podresources_v1_pb2_grpc as stubs
from tests.support.witnesses import CONFIGMAPS, Witnesses, lives

STALE_CLIENTS = 30

plane = plane_with_devices


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
