"""Judges a plane after it was broken, from sources that do not share code with what they judge.

What the store's history says is the truth for the API; what the containers' own environments say is the truth for
devices; what a writer was told is the truth for writes.
"""

import threading
from collections.abc import Iterator
from pathlib import Path

import grpc

from protocols.wire import etcd_pb2, mvcc_pb2
from tests.support.plane import Plane, until
from tests.support.stubs import call
from tests.support.watchers import ApiWatcher

OPTIONS = [("grpc.default_authority", "localhost"), ("grpc.max_receive_message_length", -1)]
SERVICES = etcd_pb2.DESCRIPTOR.services_by_name


def stored_events(plane: Plane, prefix: str, start: int, stop: int) -> list[tuple[str, int, str]]:
    """(type, revision, name) of every change below `prefix` in (start, stop], from the store's own history.

    All keys are watched, as there is a change of some key at every revision: progress is not asked for, which an etcd
    may tell too early (3.4.23 does).
    """
    found: list[tuple[str, int, str]] = []
    reached, over = start, threading.Event()
    with grpc.insecure_channel(plane.store, OPTIONS) as channel:
        request = etcd_pb2.WatchCreateRequest(key=b"\0", range_end=b"\0", start_revision=start + 1)
        watch = call(channel, SERVICES["Watch"], "Watch")(_held_open(request, over), timeout=60, wait_for_ready=True)
        while reached < stop:
            response = next(watch)
            assert not response.canceled, "the store compacted what the oracle needs"
            for event in response.events:
                reached = event.kv.mod_revision
                if event.kv.key.startswith(prefix.encode()):
                    found.append(_event(event))
        over.set()
        watch.cancel()
    return [event for event in found if event[1] <= stop]


def _held_open(request: etcd_pb2.WatchCreateRequest, over: threading.Event) -> Iterator[etcd_pb2.WatchRequest]:
    """A watch ends with its requests."""
    yield etcd_pb2.WatchRequest(create_request=request)
    over.wait(60)


def _event(event: mvcc_pb2.Event) -> tuple[str, int, str]:
    name = event.kv.key.decode().rpartition("/")[2]
    if event.type == 1:
        return "DELETED", event.kv.mod_revision, name
    created = event.kv.create_revision == event.kv.mod_revision
    return "ADDED" if created else "MODIFIED", event.kv.mod_revision, name


def revision(plane: Plane) -> int:
    with grpc.insecure_channel(plane.store, OPTIONS) as channel:
        request = etcd_pb2.RangeRequest(key=b"/registry/", count_only=True)
        return int(call(channel, SERVICES["KV"], "Range")(request, timeout=20, wait_for_ready=True).header.revision)


def watch_missed_nothing(plane: Plane, watcher: ApiWatcher, prefix: str) -> None:
    """The watcher saw every stored change once, in order, and was never told to relist."""
    stop = revision(plane)
    expected = stored_events(plane, prefix, watcher.start_rv, stop)
    if expected:
        until("the watcher at the store's revision", lambda: watcher.rv >= expected[-1][1], 60)
    seen = [(event.type, event.rv, event.name) for event in list(watcher.events) if event.rv <= stop]
    assert seen == expected, f"missing {set(expected) - set(seen)}, extra {set(seen) - set(expected)}, order differs"
    assert watcher.errors == []


def containers(plane: Plane, variable: str = "EXAMPLE_COM_GPU") -> dict[int, dict[str, str]]:
    """Pid -> environment of the plane's containers that were given devices, read from /proc."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (own := environment(int(entry.name))).get(variable):
            parent = environment(parent_of(int(entry.name)))
            if parent.get("NODEPLANE_ROOT") == str(plane.root) and variable not in parent:
                found[int(entry.name)] = own
    return found


def environment(pid: int) -> dict[str, str]:
    """{} for a process that is gone or not ours."""
    try:
        text = Path(f"/proc/{pid}/environ").read_text(errors="replace")
    except OSError:
        return {}
    return dict(item.split("=", 1) for item in text.split("\0") if "=" in item)


def parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def devices_in_use(plane: Plane, variable: str = "EXAMPLE_COM_GPU") -> dict[str, list[str]]:
    """Device -> host names of the containers whose environment names it."""
    holders: dict[str, list[str]] = {}
    for around in containers(plane, variable).values():
        for device in around[variable].split(","):
            holders.setdefault(device, []).append(around.get("HOSTNAME", "?"))
    return holders


def no_device_twice(plane: Plane) -> None:
    shared = {device: pods for device, pods in devices_in_use(plane).items() if len(set(pods)) > 1}
    assert not shared, f"devices given twice: {shared}"
