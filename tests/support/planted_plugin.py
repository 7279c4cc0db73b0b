"""The device plugin of conform_plugin.py with a bug that plugins of vendors had, which its first argument names.

Each bug is a function that replaces a part of the correct plugin; a name that is not among them is left to that.
"""

import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from tests.support import conform_plugin as sample
from tests.support import planted_registry as planted_registry  # its bugs, too
from tests.support.conform_plugin import POLL_S, Plugin
from tests.support.planting import BUGS, bug, replace, spin_after
from tests.support.stubs import deviceplugin_v1beta1_pb2_grpc as service

Lists = Iterator[pb.ListAndWatchResponse]
SLOWER = 4
SLOW_S = 5.0


def watched(changed: Callable[[pb.ListAndWatchResponse], None]) -> None:
    """Call it with each list that differs from the last, in a thread."""

    def watch() -> None:
        known = sample.whole_list()
        while not sample.ended.wait(POLL_S):
            now = sample.whole_list()
            if now != known:
                changed(now)
                known = now

    threading.Thread(target=watch, daemon=True).start()


def over(context: grpc.ServicerContext) -> threading.Event:
    found = threading.Event()
    context.add_callback(found.set)
    return found


# lists


@bug
def wakes_one_list() -> None:
    """One channel of changes for all calls: one that is over takes the next."""
    changes: queue.Queue[pb.ListAndWatchResponse] = queue.Queue()
    watched(changes.put)

    def listing(self: Plugin, request: pb.Empty, context: grpc.ServicerContext) -> Lists:
        yield sample.whole_list()
        while True:
            yield changes.get()

    replace(Plugin, "ListAndWatch", listing)


@bug
def begins_with_healthy_devices() -> None:
    """Health is what has changed since: the first list has none of it."""

    def listing(self: Plugin, request: pb.Empty, context: grpc.ServicerContext) -> Lists:
        ended, known, first = over(context), sample.whole_list(), sample.whole_list()
        for device in first.devices:
            device.health = "Healthy"
        yield first
        while not ended.wait(POLL_S):
            now = sample.whole_list()
            if now != known:
                yield now
                known = now

    replace(Plugin, "ListAndWatch", listing)


@bug
def holds_its_lock_until_a_change_is_read() -> None:
    changes: queue.Queue[pb.ListAndWatchResponse] = queue.Queue()
    lock = threading.Lock()

    def send(now: pb.ListAndWatchResponse) -> None:
        with lock:
            changes.put(now)
            changes.join()

    def listing(self: Plugin, request: pb.Empty, context: grpc.ServicerContext) -> Lists:
        ended = over(context)
        with lock:
            first = sample.whole_list()
        yield first
        while not ended.is_set():
            try:
                now = changes.get(timeout=POLL_S)
            except queue.Empty:
                continue
            changes.task_done()
            yield now

    watched(send)
    replace(Plugin, "ListAndWatch", listing)


@bug
def never_ends_a_list() -> None:
    replace(sample, "ThreadPoolExecutor", lambda workers: ThreadPoolExecutor(16))

    def listing(self: Plugin, request: pb.Empty, context: grpc.ServicerContext) -> Lists:
        known = sample.whole_list()
        yield known
        while not sample.ended.wait(POLL_S):
            now = sample.whole_list()
            if now != known:
                yield now
                known = now

    replace(Plugin, "ListAndWatch", listing)


@bug
def ends_with_its_list() -> None:
    correct = Plugin.ListAndWatch

    def listing(self: Plugin, request: pb.Empty, context: grpc.ServicerContext) -> Lists:
        context.add_callback(lambda: os._exit(3))
        return correct(self, request, context)

    replace(Plugin, "ListAndWatch", listing)


@bug
def spins_after_a_list() -> None:
    spin_after(Plugin, "ListAndWatch", sample.ended)


@bug
def begins_with_an_empty_list() -> None:
    correct = Plugin.ListAndWatch

    def listing(self: Plugin, request: pb.Empty, context: grpc.ServicerContext) -> Lists:
        yield pb.ListAndWatchResponse()
        time.sleep(POLL_S)
        yield from correct(self, request, context)

    replace(Plugin, "ListAndWatch", listing)


@bug
def lists_more_than_a_message_holds() -> None:
    """It is more than gRPC's default of 4 MiB, and less than the 16 MiB of agents."""
    correct = sample.whole_list

    def whole_list() -> pb.ListAndWatchResponse:
        found = correct()
        found.devices.extend(pb.Device(ID=f"part-{number:050d}", health="Healthy") for number in range(70_000))
        return found

    replace(sample, "whole_list", whole_list)


@bug
def lists_in_another_order_each_time() -> None:
    """As maps of Go are; a device plugin that compares such lists sends them five times a second."""

    def listing(self: Plugin, request: pb.Empty, context: grpc.ServicerContext) -> Lists:
        ended, devices = over(context), list(sample.whole_list().devices)
        yield pb.ListAndWatchResponse(devices=devices)
        while not ended.wait(0.2):
            devices = devices[1:] + devices[:1]
            yield pb.ListAndWatchResponse(devices=devices)

    replace(Plugin, "ListAndWatch", listing)


@bug
def has_the_number_of_its_bus_as_numa_node() -> None:
    correct = sample.device

    def device(number: int, id: str) -> pb.Device:
        found = correct(number, id)
        found.topology.nodes[0].ID = 0x86
        return found

    replace(sample, "device", device)


@bug
def names_its_numa_node_twice() -> None:
    """No bug: the kubelet makes a set of them."""
    correct = sample.device

    def device(number: int, id: str) -> pb.Device:
        found = correct(number, id)
        found.topology.nodes.add(ID=found.topology.nodes[0].ID)
        return found

    replace(sample, "device", device)


@bug
def sends_changed_devices_only() -> None:
    def listing(self: Plugin, request: pb.Empty, context: grpc.ServicerContext) -> Lists:
        ended, known = over(context), sample.whole_list()
        yield known
        while not ended.wait(POLL_S):
            now = sample.whole_list()
            if changed := [device for device in now.devices if device not in known.devices]:
                yield pb.ListAndWatchResponse(devices=changed)
                known = now

    replace(Plugin, "ListAndWatch", listing)


@bug
def writes_no_health() -> None:
    correct = sample.device

    def device(number: int, id: str) -> pb.Device:
        found = correct(number, id)
        found.ClearField("health")
        return found

    replace(sample, "device", device)


@bug
def has_a_broken_device() -> None:
    """No bug: this one stays so, whatever happens to the others."""
    correct = sample.is_broken
    replace(sample, "is_broken", lambda id: id.endswith("-1") or correct(id))


# other calls


@bug
def has_no_options() -> None:
    replace(Plugin, "GetDevicePluginOptions", service.DevicePluginServicer.GetDevicePluginOptions)


@bug
def fails_to_find_its_options() -> None:
    def options(self: Plugin, request: pb.Empty, context: grpc.ServicerContext) -> pb.DevicePluginOptions:
        context.abort(grpc.StatusCode.INTERNAL, "no options")

    replace(Plugin, "GetDevicePluginOptions", options)


@bug
def rejects_unknown_devices_as_internal() -> None:
    """No bug: the kubelet looks at no code."""
    correct: Any = Plugin.Allocate

    def allocate(self: Plugin, request: pb.AllocateRequest, context: grpc.ServicerContext) -> Any:
        if not {id for each in request.container_requests for id in each.devices_ids} <= set(sample.ids()):
            context.abort(grpc.StatusCode.INTERNAL, "no such device")
        return correct(self, request, context)

    replace(Plugin, "Allocate", allocate)


@bug
def gives_one_device_to_a_container() -> None:
    """No bug: a device such as /dev/kvm is one for all."""
    correct: Any = Plugin.Allocate

    def allocate(self: Plugin, request: pb.AllocateRequest, context: grpc.ServicerContext) -> Any:
        if any(len(each.devices_ids) > 1 for each in request.container_requests):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "one device for a container")
        return correct(self, request, context)

    replace(Plugin, "Allocate", allocate)


@bug
def requires_a_pre_start_that_it_has_not() -> None:
    replace(Plugin, "PreStartContainer", service.DevicePluginServicer.PreStartContainer)


@bug
def starts_what_it_has_allocated_itself() -> None:
    correct: Any = Plugin.PreStartContainer

    def start(self: Plugin, request: pb.PreStartContainerRequest, context: grpc.ServicerContext) -> Any:
        if not set(request.devices_ids) <= sample.allocated:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "it was not allocated")
        return correct(self, request, context)

    replace(Plugin, "PreStartContainer", start)


@bug
def prefers_no_odd_numbers() -> None:
    correct: Any = Plugin.GetPreferredAllocation

    def prefer(self: Plugin, request: pb.PreferredAllocationRequest, context: grpc.ServicerContext) -> Any:
        size = request.container_requests[0].allocation_size
        if size > 1 and size % 2:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"no ring has {size} devices")
        return correct(self, request, context)

    replace(Plugin, "GetPreferredAllocation", prefer)


@bug
def repeats_what_must_be_included() -> None:
    """It is among the available devices, too."""

    def prefer(self: Plugin, request: pb.PreferredAllocationRequest, context: grpc.ServicerContext) -> Any:
        wanted = request.container_requests[0]
        choice = [*wanted.must_include_deviceIDs, *wanted.available_deviceIDs][: wanted.allocation_size]
        return pb.PreferredAllocationResponse(container_responses=[{"deviceIDs": choice}])

    replace(Plugin, "GetPreferredAllocation", prefer)


@bug
def knows_a_container_by_the_order_of_its_devices() -> None:
    correct: Any = Plugin.PreStartContainer
    allocate: Any = Plugin.Allocate
    known: set[str] = set()

    def remember(self: Plugin, request: pb.AllocateRequest, context: grpc.ServicerContext) -> Any:
        known.update(",".join(each.devices_ids) for each in request.container_requests)
        return allocate(self, request, context)

    def start(self: Plugin, request: pb.PreStartContainerRequest, context: grpc.ServicerContext) -> Any:
        if ",".join(request.devices_ids) not in known:
            context.abort(grpc.StatusCode.NOT_FOUND, "there is no such allocation")
        return correct(self, request, context)

    replace(Plugin, "Allocate", remember)
    replace(Plugin, "PreStartContainer", start)


@bug
def starts_a_container_slowly() -> None:
    """No bug: the kubelet waits for half a minute, here for some seconds that are more than other calls have."""
    correct: Any = Plugin.PreStartContainer

    def start(self: Plugin, request: pb.PreStartContainerRequest, context: grpc.ServicerContext) -> Any:
        time.sleep(SLOW_S)
        return correct(self, request, context)

    replace(Plugin, "PreStartContainer", start)


@bug
def ends_at_an_unknown_device() -> None:
    correct: Any = Plugin.Allocate

    def allocate(self: Plugin, request: pb.AllocateRequest, context: grpc.ServicerContext) -> Any:
        if not {id for each in request.container_requests for id in each.devices_ids} <= set(sample.ids()):
            os._exit(2)
        return correct(self, request, context)

    replace(Plugin, "Allocate", allocate)


# sockets


class OfTheProcess:
    """A server that ends with its process only."""

    def __init__(self, server: grpc.Server) -> None:
        self._server = server

    def stop(self, grace: float) -> threading.Event:
        done = threading.Event()
        done.set()
        return self._server.stop(grace) if sample.ended.is_set() else done


@bug
def binds_once() -> None:
    correct = sample.serve
    servers: list[OfTheProcess] = []

    def serve() -> OfTheProcess:
        if not servers:
            servers.append(OfTheProcess(correct()))
        return servers[0]

    replace(sample, "serve", serve)


@bug
def registers_twice() -> None:
    correct = sample.register

    def register() -> None:
        correct()
        correct()

    replace(sample, "register", register)


@bug
def repeats_register_without_a_pause() -> None:
    correct = sample.register

    def register() -> None:
        while True:
            try:
                return correct()
            except grpc.RpcError:
                if sample.kubelet() is None:
                    raise

    replace(sample, "register", register)


@bug
def spins_without_kubelet() -> None:
    correct = sample.kubelet

    def kubelet() -> tuple[int, int] | None:
        found = correct()
        while not (found or sample.ended.is_set()):
            found = correct()
        return found

    replace(sample, "kubelet", kubelet)


@bug
def starts_slowly_and_gives_up_without_kubelet() -> None:
    """Its second start takes SLOWER times as long, as on a busy machine; then it looks for the kubelet once."""
    correct, first = sample.run, sample.DIRECTORY.parent / "first-start"

    def run() -> None:
        took = float(first.read_text()) if first.exists() else 0.0
        while time.process_time() < SLOWER * took:
            pass
        first.write_text(str(time.process_time()))
        if sample.kubelet() is None:
            sample.ended.wait()
        correct()

    replace(sample, "run", run)


@bug
def clears_the_directory() -> None:
    correct = sample.serve

    def serve() -> grpc.Server:
        for path in sample.DIRECTORY.iterdir():
            if path != sample.KUBELET:
                path.unlink()
        return correct()

    replace(sample, "serve", serve)


if __name__ == "__main__":
    BUGS.get(sys.argv[1], lambda: None)()
    sample.main()
