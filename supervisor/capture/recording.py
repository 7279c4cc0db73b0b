"""The record of forwarded calls, in the words of the device manager's own record, so that the same scripts are made.

Bounded: when it is full, later calls are forwarded and not recorded.
"""

import time
from typing import Any

import msgspec
from google.protobuf.message import DecodeError

from protocols.messages.calls import CallRecord
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire.methods import Method
from protocols.wire.plugins import GET_INFO, LIST_AND_WATCH, WATCH_DEVICES_STATUS
from supervisor.capture.parts import TIMEOUT_S

MOST_RECORDS, MOST_BYTES = 10_000, 32 << 20
HEALTH = {1: "Healthy", 2: "Unhealthy"}
"""By the numbers of DRAResourceHealth; every other one is Unknown."""
LONGEST_S = 366 * 86400
"""The longest timeout of a health report, as kubelet has it."""
Seen = dict[Any, dict[str, Any]]
"""The devices of a stream's last message; those of a health stream with `until`, when the report expires."""


class Recording:
    """Records in the order in which they ended."""

    def __init__(self) -> None:
        self.records: list[CallRecord] = []
        self._size = 0
        self.left_out = 0
        """Calls and messages that found no room."""

    def add(self, record: CallRecord) -> None:
        """Append a record; equal messages of a stream in a row are counted."""
        last = self.records[-1] if self.records else None
        if last is not None and record.incoming and _body(last) == _body(record):
            self.records[-1] = msgspec.structs.replace(record, times=last.times + 1)
            return
        size = len(msgspec.msgpack.encode(record))
        if len(self.records) >= MOST_RECORDS or self._size + size > MOST_BYTES:
            self.left_out += 1
            return
        self._size += size
        self.records.append(record)

    def accepted(self, socket: str) -> None:
        """Note that the node accepted the last answer to GetInfo of a registration socket."""
        for at in range(len(self.records) - 1, -1, -1):
            record = self.records[at]
            if (record.socket, record.method, record.status) == (socket, GET_INFO.name, "OK"):
                outcome = f"accepted as {record.reply.get('type', '')}"
                self.records[at] = msgspec.structs.replace(record, outcome=outcome)
                return


def _body(record: CallRecord) -> CallRecord:
    return msgspec.structs.replace(record, began_ns=0, seconds=0.0, times=1)


def message_of(method: Method[Any, Any], raw: bytes, before: Seen) -> tuple[dict[str, Any], Seen]:
    """Return a message of a stream as its difference to the last one, and what it shows; {} if it is none."""
    try:
        message = method.reply.FromString(raw)
    except DecodeError:
        return {}, before
    if method is LIST_AND_WATCH:
        return _list(message, before)
    if method is WATCH_DEVICES_STATUS:
        return _statuses(message, before)
    return _health(message, before, time.monotonic())


def _list(message: pb.ListAndWatchResponse, before: Seen) -> tuple[dict[str, Any], Seen]:
    now = {device.ID: _device(device) for device in message.devices}
    changes = {
        "added": [device for id, device in now.items() if id not in before],
        "changed": [device for id, device in now.items() if id in before and before[id] != device],
        "removed": [{"ID": id} for id in before if id not in now],
    }
    return {"devices": len(now), **{name: devices for name, devices in changes.items() if devices}}, now


def _device(device: pb.Device) -> dict[str, Any]:
    shown: dict[str, Any] = {"ID": device.ID, "health": device.health or "(empty)"}
    if nodes := [node.ID for node in device.topology.nodes]:
        shown["numa"] = nodes
    return shown


def _health(message: Any, before: Seen, now: float) -> tuple[dict[str, Any], Seen]:
    """Devices that a message does not name keep their health until their report expires."""
    reports = {(item.device.pool_name, item.device.device_name): _report(item) for item in message.devices}
    expired = {key for key in reports if key in before and before[key]["until"] <= now}
    changed = [
        {**report, **({"before": "Unknown"} if key in expired else {})}
        for key, report in reports.items()
        if key in expired or key not in before or {**report, "until": before[key]["until"]} != before[key]
    ]
    until = {key: {**each, "until": now + each.get("timeout", TIMEOUT_S)} for key, each in reports.items()}
    return {"devices": len(reports), **({"changed": changed} if changed else {})}, before | until


def _report(item: Any) -> dict[str, Any]:
    shown = {"pool_name": item.device.pool_name, "device_name": item.device.device_name}
    shown |= {"health": HEALTH.get(item.health, "Unknown"), "message": item.message}
    timeout = min(item.health_check_timeout_seconds, LONGEST_S)
    return {**shown, **({"timeout": timeout} if timeout > 0 else {})}


def _statuses(message: Any, before: Seen) -> tuple[dict[str, Any], Seen]:
    """Return a message of NodeHealth, which is complete."""
    now = {
        (item.pool_name, item.device_name): {
            "pool_name": item.pool_name, "device_name": item.device_name, "health": item.health, "message": item.message
        }
        for item in message.devices
    }  # fmt: skip
    changed = [report for key, report in now.items() if before.get(key) != report]
    changes = {"changed": changed, "removed": ["/".join(key) for key in before if key not in now]}
    return {"devices": len(now), **{name: devices for name, devices in changes.items() if devices}}, now
