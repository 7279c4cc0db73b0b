"""The device plugin of conform_plugin.py with a bug that plugins of vendors had, which its first argument names.

Each bug is a function that replaces a part of the correct plugin; a name that is not among them is left to that.
"""

import atexit
import os
import queue
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire import deviceplugin_v1beta1_pb2_grpc as service
from tests.support import conform_plugin as sample
from tests.support.conform_plugin import POLL_S, Plugin

Lists = Iterator[pb.ListAndWatchResponse]
Answer = pb.ContainerAllocateResponse
SLOWER = 4
BUGS: dict[str, Callable[[], None]] = {}


def bug(plant: Callable[[], None]) -> Callable[[], None]:
    BUGS[plant.__name__] = plant
    return plant


def replace(owner: object, name: str, part: object) -> None:
    setattr(owner, name, part)


def replace_answer(change: Callable[[Answer, Sequence[str]], None]) -> None:
    correct = sample.answer

    def answer(wanted: Sequence[str]) -> Answer:
        found = correct(wanted)
        change(found, wanted)
        return found

    replace(sample, "answer", answer)


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
def begins_with_an_empty_list() -> None:
    correct = Plugin.ListAndWatch

    def listing(self: Plugin, request: pb.Empty, context: grpc.ServicerContext) -> Lists:
        yield pb.ListAndWatchResponse()
        time.sleep(POLL_S)
        yield from correct(self, request, context)

    replace(Plugin, "ListAndWatch", listing)


@bug
def sends_changed_devices_only() -> None:
    def listing(self: Plugin, request: pb.Empty, context: grpc.ServicerContext) -> Lists:
        ended, known = over(context), sample.whole_list()
        yield known
        while not ended.wait(POLL_S):
            now = sample.whole_list()
            if changed := [each for each in now.devices if each not in known.devices]:
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


# answers


@bug
def adds_to_its_last_answer() -> None:
    given: list[str] = []
    correct = sample.answer

    def answer(wanted: Sequence[str]) -> Answer:
        given.extend(id for id in wanted if id not in given)
        return correct(given)

    replace(sample, "answer", answer)


@bug
def gives_all_devices() -> None:
    correct = sample.answer
    replace(sample, "answer", lambda wanted: correct(sample.ids()))


@bug
def answers_containers_in_reverse() -> None:
    correct = Plugin.Allocate

    def allocate(self: Plugin, request: pb.AllocateRequest, context: grpc.ServicerContext) -> pb.AllocateResponse:
        answers = list(correct(self, request, context).container_responses)
        return pb.AllocateResponse(container_responses=answers[::-1])

    replace(Plugin, "Allocate", allocate)


@bug
def gives_the_last_device_only() -> None:
    correct = sample.answer
    replace(sample, "answer", lambda wanted: correct(wanted[-1:]))


@bug
def gives_all_devices_one_path() -> None:
    hosts = ("/dev/null", "/dev/zero", "/dev/full")

    def change(found: Answer, wanted: Sequence[str]) -> None:
        for id in wanted:
            host = hosts[int(id.rpartition("-")[2]) % len(hosts)]
            found.devices.add(container_path="/dev/card", host_path=host, permissions="rw")

    replace_answer(change)


@bug
def writes_short_names_into_annotations() -> None:
    def change(found: Answer, wanted: Sequence[str]) -> None:
        found.annotations["cdi.k8s.io/sample"] = ",".join(wanted)

    replace_answer(change)


@bug
def declares_no_cdi_devices() -> None:
    replace(sample, "declare", lambda: None)


@bug
def declares_cdi_devices_by_number() -> None:
    correct, named = sample.declare, sample.ids

    def declare() -> None:
        replace(sample, "ids", lambda: [id.rpartition("-")[2] for id in named()])
        correct()
        replace(sample, "ids", named)

    replace(sample, "declare", declare)


@bug
def removes_its_mounts_at_its_end() -> None:
    folder = sample.STATE / "mounts"
    atexit.register(shutil.rmtree, folder, ignore_errors=True)

    def change(found: Answer, wanted: Sequence[str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        found.mounts.add(container_path="/state", host_path=str(folder))

    replace_answer(change)


# other calls


@bug
def has_no_options() -> None:
    replace(Plugin, "GetDevicePluginOptions", service.DevicePluginServicer.GetDevicePluginOptions)


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
