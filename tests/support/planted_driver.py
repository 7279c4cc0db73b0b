"""The DRA driver of conform_driver.py with a bug that drivers of vendors had, which its first argument names.

Each bug is a function that replaces a part of the correct driver; a name that is not among them is left to that.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc

from protocols.wire import dra_v1_pb2 as v1
from supervisor.testing.api import ApiError
from tests.support import conform_driver as sample
from tests.support.planting import BUGS, bug, replace, spin_after

LATER_S = 1.0


def replace_prepare(change: Callable[[Any, list[Any]], None]) -> None:
    """Change the answer for each claim."""
    correct = sample.prepare

    def prepare(claim: Any) -> list[Any]:
        devices = correct(claim)
        change(claim, devices)
        return devices

    replace(sample, "prepare", prepare)


def replace_cdi(change: Callable[[dict[str, Any]], None]) -> None:
    """Change each CDI file."""
    correct = sample.replace

    def write(uid: str, spec: dict[str, Any]) -> None:
        change(spec)
        correct(uid, spec)

    replace(sample, "replace", write)


# what is remembered of claims


@bug
def restores_claims_without_files() -> None:
    prepare, unprepare = sample.prepare, sample.unprepare

    def restoring(claim: Any) -> list[Any]:
        path = sample.STATE / claim.uid
        if path.exists():
            return list(v1.NodePrepareResourceResponse.FromString(path.read_bytes()).devices)
        devices = prepare(claim)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(v1.NodePrepareResourceResponse(devices=devices).SerializeToString())
        return devices

    def forgetting(claim: Any) -> str:
        (sample.STATE / claim.uid).unlink(missing_ok=True)
        return unprepare(claim)

    replace(sample, "prepare", restoring)
    replace(sample, "unprepare", forgetting)


@bug
def remembers_the_first_allocation() -> None:
    known: dict[str, list[Any]] = {}
    correct = sample.prepare

    def prepare(claim: Any) -> list[Any]:
        if claim.uid not in known:
            known[claim.uid] = correct(claim)
        sample.write_cdi(claim.uid, known[claim.uid])
        return known[claim.uid]

    replace(sample, "prepare", prepare)


@bug
def knows_claims_by_name() -> None:
    uids: dict[str, str] = {}
    replace_prepare(lambda claim, devices: uids.update({claim.name: claim.uid}))
    correct = sample.unprepare

    def unprepare(claim: Any) -> str:
        return correct(v1.Claim(namespace=claim.namespace, name=claim.name, uid=uids.get(claim.name, claim.uid)))

    replace(sample, "unprepare", unprepare)


@bug
def rejects_a_claim_as_it_was_given_back() -> None:
    """No bug: kubelet repeats a late call of a pod that is gone with the claim as the next pod has it."""
    prepare, unprepare = sample.prepare, sample.unprepare
    seen: dict[str, str] = {}
    given_back: set[tuple[str, str]] = set()

    def guarded(claim: Any) -> list[Any]:
        path = f"/apis/resource.k8s.io/v1/namespaces/{claim.namespace}/resourceclaims/{claim.name}"
        with suppress(ApiError):
            seen[claim.uid] = sample.api().get(path)["metadata"]["resourceVersion"]
        if (claim.uid, seen.get(claim.uid, "")) in given_back:
            raise sample.ClaimRejected("it has been given back, and has not changed since")
        return prepare(claim)

    def noting(claim: Any) -> str:
        given_back.add((claim.uid, seen.get(claim.uid, "")))
        return unprepare(claim)

    replace(sample, "prepare", guarded)
    replace(sample, "unprepare", noting)


@bug
def forgets_claims_at_its_end() -> None:
    correct = sample.unprepare
    replace(sample, "unprepare", lambda claim: correct(claim) if claim.uid in sample.prepared else "")


@bug
def gives_up_a_call_that_breaks_off() -> None:
    started: set[str] = set()
    correct: Any = sample.Driver.NodePrepareResources

    def prepare(self: Any, request: Any, context: grpc.ServicerContext) -> Any:
        if begun := started & {claim.uid for claim in request.claims}:
            reply = self.pb.NodePrepareResourcesResponse()
            for uid in begun:
                reply.claims[uid].error = "it is in progress"
            return reply
        started.update(claim.uid for claim in request.claims)
        time.sleep(LATER_S)  # a busy machine breaks a call off late
        reply = correct(self, request, context)
        if context.is_active():
            started.difference_update(claim.uid for claim in request.claims)
        return reply

    replace(sample.Driver, "NodePrepareResources", prepare)


# devices of claims


@bug
def gives_a_device_to_one_claim() -> None:
    held: dict[str, str] = {}
    prepare, unprepare = sample.prepare, sample.unprepare

    def holding(claim: Any) -> list[Any]:
        devices = prepare(claim)
        if taken := [
            device.device_name for device in devices if held.setdefault(device.device_name, claim.uid) != claim.uid
        ]:
            raise sample.ClaimRejected(f"{taken[0]} is prepared for another claim")
        return devices

    def freeing(claim: Any) -> str:
        for name in [name for name, uid in held.items() if uid == claim.uid]:
            del held[name]
        return unprepare(claim)

    replace(sample, "prepare", holding)
    replace(sample, "unprepare", freeing)


@bug
def prepares_what_does_not_exist() -> None:
    replace(sample, "check_offered", lambda results: None)


@bug
def ignores_the_pool() -> None:
    correct = sample.check_offered
    replace(sample, "check_offered", lambda results: correct([{**result, "pool": sample.POOL} for result in results]))


@bug
def gives_each_device_all_requests() -> None:
    def change(claim: Any, devices: list[Any]) -> None:
        names = list(dict.fromkeys(name for device in devices for name in device.request_names))
        for device in devices:
            device.request_names[:] = names

    replace_prepare(change)


@bug
def swaps_cdi_ids() -> None:
    def change(claim: Any, devices: list[Any]) -> None:
        ids = [list(device.cdi_device_ids) for device in devices]
        for each, other in zip(devices, ids[::-1], strict=True):
            each.cdi_device_ids[:] = other

    replace_prepare(change)


# CDI files


@bug
def writes_one_file_for_all_claims() -> None:
    replace(sample, "cdi_file", lambda uid: sample.CDI / f"{sample.NAME}.json")


@bug
def writes_the_last_device_only() -> None:
    replace_cdi(lambda spec: spec.update(devices=spec["devices"][-1:]))


@bug
def writes_a_variable_without_a_value() -> None:
    def change(spec: dict[str, Any]) -> None:
        for device in spec["devices"]:
            device["containerEdits"] = {"env": [device["name"].upper()]}

    replace_cdi(change)


@bug
def writes_no_version() -> None:
    replace_cdi(lambda spec: spec.update(cdiVersion=""))


# registration, slices, health


@bug
def serves_its_endpoint_later() -> None:
    """No bug: kubelet repeats calls that nobody answers."""
    correct = sample.serve

    def serve(path: Path, *add: Callable[[grpc.Server], None]) -> None:
        if path == sample.SOCKET:
            threading.Timer(LATER_S, lambda: correct(path, *add)).start()
        else:
            correct(path, *add)

    replace(sample, "serve", serve)


@bug
def names_an_endpoint_that_nobody_serves() -> None:
    correct = sample.serve
    replace(sample, "serve", lambda path, *add: correct(path, *add) if path != sample.SOCKET else None)


@bug
def looks_for_devices_in_get_info() -> None:
    correct: Any = sample.Registrar.GetInfo

    def get_info(self: Any, request: Any, context: grpc.ServicerContext) -> Any:
        time.sleep(1.3)
        return correct(self, request, context)

    replace(sample.Registrar, "GetInfo", get_info)


@bug
def clears_the_directories() -> None:
    for folder in (sample.REGISTRAR.parent, sample.CDI):
        for path in folder.iterdir() if folder.exists() else ():
            if sample.NAME not in path.name:
                path.unlink()


@bug
def owns_slices_of_all_nodes() -> None:
    replace(sample, "MINE", f"spec.driver={sample.NAME}")


@bug
def names_its_pool_alike_on_all_nodes() -> None:
    replace(sample, "POOL", "default")


@bug
def reports_another_pool() -> None:
    correct: Any = sample.Health.report

    def report(self: Any) -> Any:
        found = correct(self)
        for device in found.devices:
            device.device.pool_name = "default"
        return found

    replace(sample.Health, "report", report)


@bug
def repeats_some_devices() -> None:
    correct: Any = sample.Health.NodeWatchResources

    def watch(self: Any, request: Any, context: grpc.ServicerContext) -> Any:
        yield self.report()
        for found in correct(self, request, context):
            del found.devices[2:]
            yield found

    replace(sample.Health, "NodeWatchResources", watch)


@bug
def spins_after_a_health_stream() -> None:
    spin_after(sample.Health, "NodeWatchResources", sample.ended)


@bug
def has_a_broken_device() -> None:
    """No bug: this one stays so, whatever happens to the others."""
    correct: Any = sample.Health.report

    def report(self: Any) -> Any:
        found = correct(self)
        found.devices[1].health = 2
        return found

    replace(sample.Health, "report", report)


@bug
def reads_one_namespace() -> None:
    correct = sample.prepare

    def prepare(claim: Any) -> list[Any]:
        claim.namespace = "default"
        return correct(claim)

    replace(sample, "prepare", prepare)


@bug
def answers_the_first_device_again() -> None:
    correct = sample.prepare
    known: set[str] = set()

    def prepare(claim: Any) -> list[Any]:
        found = correct(claim)
        again = claim.uid in known
        known.add(claim.uid)
        return found[:1] if again else found

    replace(sample, "prepare", prepare)


@bug
def writes_the_whole_status() -> None:
    """As of a claim that was read before it was reserved for the pod."""
    correct = sample.prepare

    def prepare(claim: Any) -> list[Any]:
        found = correct(claim)
        path = f"/apis/resource.k8s.io/v1/namespaces/{claim.namespace}/resourceclaims/{claim.name}"
        stored = sample.api().get(path)
        stored["metadata"].pop("resourceVersion")
        stored["status"]["reservedFor"] = []
        sample.api().ask("PUT", f"{path}/status", stored)
        return found

    replace(sample, "prepare", prepare)


@bug
def names_cdi_devices_by_the_device() -> None:
    """In a file of each claim: two claims of a device declare it both."""
    correct = sample.answer
    replace(sample, "answer", lambda uid, result: correct("of", result))


@bug
def writes_files_of_each_process() -> None:
    replace(sample, "cdi_file", lambda uid: sample.CDI / f"{sample.NAME}-{uid}-{os.getpid()}.json")


@bug
def cleans_up_at_each_registration() -> None:
    correct = sample.Registrar.NotifyRegistrationStatus

    def notify(self: Any, request: Any, context: grpc.ServicerContext) -> Any:
        for path in sample.CDI.glob(f"{sample.NAME}-*.json"):
            path.unlink()
        return correct(self, request, context)

    replace(sample.Registrar, "NotifyRegistrationStatus", notify)


@bug
def names_a_service_of_tomorrow() -> None:
    """No bug: the kubelet looks for the first that it knows."""
    correct: Any = sample.Registrar.GetInfo

    def info(self: sample.Registrar, request: Any, context: grpc.ServicerContext) -> Any:
        found = correct(self, request, context)
        found.supported_versions.insert(0, "v2.DRAPlugin")
        return found

    replace(sample.Registrar, "GetInfo", info)


@bug
def names_no_request_where_there_is_one() -> None:
    """No bug: a device without names is for all requests."""

    def change(claim: Any, devices: list[Any]) -> None:
        if len({name for device in devices for name in device.request_names}) == 1:
            for device in devices:
                device.ClearField("request_names")

    replace_prepare(change)


if __name__ == "__main__":
    BUGS.get(sys.argv[1], lambda: None)()
    sample.main()
