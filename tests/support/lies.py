"""What a misbehaving runtime answers instead of the truth. Pure: from a method and the true answer's bytes."""

import time
from collections.abc import Callable, Iterable

from protocols.wire import cri_pb2 as pb

Lie = Callable[[str, bytes], bytes]
HUGE = 20 << 20
OTHER = "f" * 64


def _sandbox(reply: bytes, change: Callable[[pb.PodSandboxStatusResponse], object]) -> bytes:
    answer = pb.PodSandboxStatusResponse.FromString(reply)
    change(answer)
    return answer.SerializeToString()


def wrong_ids(method: str, reply: bytes) -> bytes:
    """A status tells of another sandbox or container than was asked for."""
    if method == "PodSandboxStatus":
        return _sandbox(reply, lambda answer: setattr(answer.status, "id", OTHER))
    if method == "ContainerStatus":
        told = pb.ContainerStatusResponse.FromString(reply)
        told.status.id = OTHER
        return told.SerializeToString()
    return reply


def unknown_enums(method: str, reply: bytes) -> bytes:
    """States that CRI does not have."""
    if method == "ListContainers":
        listed = pb.ListContainersResponse.FromString(reply)
        for item in listed.containers:
            item.state = 42  # type: ignore[assignment]  # unknown on purpose
        return listed.SerializeToString()
    if method == "PodSandboxStatus":

        def change(answer: pb.PodSandboxStatusResponse) -> None:
            for status in answer.containers_statuses:
                status.state = 42  # type: ignore[assignment]  # unknown on purpose

        return _sandbox(reply, change)
    return reply


def stamp_without_statuses(method: str, reply: bytes) -> bytes:
    """containerd for a while: a timestamp, and no container, though there are some."""
    return _sandbox(reply, lambda answer: answer.ClearField("containers_statuses")) if _told(method) else reply


def no_stamps(method: str, reply: bytes) -> bytes:
    """containerd: neither the timestamp nor the containers' statuses."""

    def change(answer: pb.PodSandboxStatusResponse) -> None:
        answer.ClearField("timestamp")
        answer.ClearField("containers_statuses")

    return _sandbox(reply, change) if _told(method) else reply


def _told(method: str) -> bool:
    return method == "PodSandboxStatus"


def huge_list(method: str, reply: bytes) -> bytes:
    """20 MB: more than CRI's 16 MiB for a message. The surplus is a label of an item without an id."""
    if method != "ListContainers":
        return reply
    return reply + pb.ListContainersResponse(containers=[pb.Container(labels={"x": "y" * HUGE})]).SerializeToString()


class LateOom:
    """Why the kernel killed a container becomes known a little after its end did, without an event."""

    NAME, AFTER_S = "late-oom", 0.3

    def __init__(self) -> None:
        self._told: dict[str, float] = {}

    def hide(self, statuses: Iterable[pb.ContainerStatus]) -> None:
        for status in statuses:
            first = self._told.setdefault(status.id, time.monotonic()) if status.reason == "OOMKilled" else 0.0
            if time.monotonic() - first < self.AFTER_S:
                status.reason = "Error"

    def unary(self, method: str, reply: bytes) -> bytes:
        if method == "PodSandboxStatus":
            return _sandbox(reply, lambda answer: self.hide(answer.containers_statuses))
        if method == "ContainerStatus":
            told = pb.ContainerStatusResponse.FromString(reply)
            self.hide([told.status])
            return told.SerializeToString()
        return reply


LIES: dict[str, Lie] = {
    "wrong-ids": wrong_ids,
    "unknown-enums": unknown_enums,
    "stamp-without-statuses": stamp_without_statuses,
    "no-stamps": no_stamps,
    "huge-list": huge_list,
}
REFUSED = {"create-lost": ("CreateContainer",), "start-lost": ("StartContainer",)}
"""The call is passed on and then answered with UNAVAILABLE: what it was to do has been done."""
HANGS, NO_EVENTS, SLOW_START = "hangs", "no-events", "slow-start"
SLOW_START_S = 0.5
ENDS_STREAM = (NO_EVENTS, "huge-list", "wrong-ids")
"""Lies under which the event stream ends as soon as it is open: without events, lists and statuses matter most."""
HOLDS_EVENTS = ("unknown-enums", "stamp-without-statuses")
"""Lies under which the stream stays open but brings nothing, so that pods are inspected."""
EVERY = (*LIES, *REFUSED, HANGS, NO_EVENTS, SLOW_START, LateOom.NAME)
