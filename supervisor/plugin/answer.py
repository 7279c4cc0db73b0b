"""Allocate's answer after a script. Pure."""

from collections.abc import Iterator
from typing import Any

import msgspec

from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from supervisor.plugin.script import Answer

ALL, EACH = "$IDS", "$ID"


def answer_for(answer: Answer, ids: list[str], variable: str) -> pb.ContainerAllocateResponse:
    """`$IDS` in a text are all ids; a text with `$ID` stands once for each device."""
    envs = {variable: ALL} if answer.envs is None else answer.envs
    return pb.ContainerAllocateResponse(
        envs={_all(key, ids): _all(value, ids) for key, value in envs.items()},
        annotations={_all(key, ids): _all(value, ids) for key, value in answer.annotations.items()},
        mounts=[pb.Mount(**item) for mount in answer.mounts for item in _each(mount, ids)],
        devices=[pb.DeviceSpec(**item) for device in answer.devices for item in _each(device, ids)],
        cdi_devices=[pb.CDIDevice(name=name) for text in answer.cdi for name in _texts(text, ids)],
    )


def _all(text: str, ids: list[str]) -> str:
    return text.replace(ALL, ",".join(ids))


def _texts(text: str, ids: list[str]) -> list[str]:
    each = EACH in text.replace(ALL, "")
    texts = [text.replace(ALL, "\0").replace(EACH, id).replace("\0", ALL) for id in ids] if each else [text]
    return [_all(item, ids) for item in texts]


def _each(entry: msgspec.Struct, ids: list[str]) -> Iterator[dict[str, Any]]:
    """The fields of one entry, or of one entry per device when a text of it names `$ID`."""
    fields = {name: getattr(entry, name) for name in entry.__struct_fields__}
    texts = {name: _texts(value, ids) for name, value in fields.items() if isinstance(value, str)}
    for at in range(max(map(len, texts.values()))):
        yield {**fields, **{name: found[min(at, len(found) - 1)] for name, found in texts.items()}}
