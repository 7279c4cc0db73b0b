"""Bugs in the answers of the plugin of conform_plugin.py and in the CDI files that they name, see planted_plugin.py."""

import atexit
import os
import shutil
from collections.abc import Callable, Sequence
from typing import Any

import grpc

from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from tests.support import conform_plugin as sample
from tests.support.conform_plugin import Plugin
from tests.support.planting import bug, replace

Answer = pb.ContainerAllocateResponse


def replace_answer(change: Callable[[Answer, Sequence[str]], None]) -> None:
    correct = sample.answer

    def answer(wanted: Sequence[str]) -> Answer:
        found = correct(wanted)
        change(found, wanted)
        return found

    replace(sample, "answer", answer)


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


@bug
def joins_cdi_names() -> None:
    """The devices of a container become one name."""

    def change(found: Answer, wanted: Sequence[str]) -> None:
        del found.cdi_devices[:]
        found.cdi_devices.add(name=f"example.com/gpu={','.join(wanted)}")

    replace_answer(change)


@bug
def names_a_file_as_a_device_node() -> None:
    replace_answer(lambda found, wanted: setattr(found.devices[0], "host_path", os.path.abspath(__file__)))


@bug
def declares_no_edits() -> None:
    replace_spec(lambda spec: [device.update(containerEdits={}) for device in spec["devices"]])


@bug
def declares_an_unknown_version() -> None:
    replace_spec(lambda spec: spec.update(cdiVersion="0.9.9"))


@bug
def declares_a_missing_node() -> None:
    edits = {"deviceNodes": [{"path": "/dev/gpu", "hostPath": "/dev/no-such-gpu"}]}
    replace_spec(lambda spec: [device.update(containerEdits=edits) for device in spec["devices"]])


@bug
def declares_devices_in_each_process() -> None:
    """Two files declare them once it has restarted."""
    replace(sample, "CDI_FILE", f"sample-{os.getpid()}.json")


@bug
def removes_its_cdi_file_at_its_end() -> None:
    atexit.register(lambda: (sample.CDI / sample.CDI_FILE).unlink(missing_ok=True))


def replace_spec(change: Callable[[dict[str, Any]], object]) -> None:
    correct = sample.cdi_spec

    def spec() -> dict[str, Any]:
        found = correct()
        change(found)
        return found

    replace(sample, "cdi_spec", spec)
