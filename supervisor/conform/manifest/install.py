"""Apply a manifest to a plane but for its DaemonSet, whose pod conform starts and ends itself."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from protocols.kube.meta import condition_true
from protocols.messages import runtime as messages
from protocols.messages.runtime import ImageInfo, ImportImage
from protocols.process.layout import Layout
from protocols.process.sockets import prepare_directory
from supervisor.client.connection import ask
from supervisor.conform.async_api import Object
from supervisor.conform.manifest.documents import (
    DEFINITION,
    HostPaths,
    Manifest,
    ManifestUnusable,
    check_commands,
    containers_of,
    pod_of,
)
from supervisor.testing.api import Api, ApiError

OF_THE_KUBELET = ("device-plugins", "plugins_registry", "plugins", "pod-resources")
IMPORT_S = 600.0
ESTABLISHED_S, POLL_S = 30.0, 0.1
NO_MOUNTS = (
    "--manifest needs root: for other users the embedded runtime mounts nothing; give the program as -- COMMAND, or a"
    " --runtime"
)


def check_manifest(manifest: Manifest, directory: Path, *, runtime: str, image: str) -> None:
    """Raise ManifestUnusable for what can be seen without a plane; `directory` is the kubelet's."""
    pod = pod_of(manifest, "", HostPaths(directory, directory))
    if runtime:
        return
    if os.geteuid() != 0:
        raise ManifestUnusable(NO_MOUNTS)
    if not image:
        check_commands(manifest, pod)


def prepare_directories(directory: Path) -> None:
    """Make the directories of a kubelet, which volumes may demand to exist."""
    for name in OF_THE_KUBELET:
        prepare_directory(directory / name)


def import_image(where: Layout, path: str, pod: Object) -> None:
    """Import an archive under the name of the pod's only image, else under the archive's. Raises UsageError."""
    names = {str(container.get("image", "")) for container in containers_of(pod)}
    request = ImportImage(os.path.abspath(path), tuple(names) if len(names) == 1 else ())
    ask(where, lambda asking: asking.call(messages.OWNER, messages.IMPORT_IMAGE, request, ImageInfo, IMPORT_S))


def apply_others(api: Api, manifest: Manifest) -> None:
    """Apply the objects beside the DaemonSet, and namespaces that are not among them. Raises ManifestUnusable."""
    for obj in (*_namespaces(api, manifest), *manifest.others):
        try:
            api.apply(obj, "nodeplane-conform")
            if obj["kind"] == DEFINITION:
                _wait_established(api, obj)
        except ApiError as error:
            raise ManifestUnusable(f"{obj['kind']} {obj['metadata']['name']} is rejected: {error}") from None


def _wait_established(api: Api, definition: Object) -> None:
    """Wait until the API serves the kind: objects of it may follow. Raises ApiError, ManifestUnusable."""
    deadline = time.monotonic() + ESTABLISHED_S
    while not condition_true(current := api.get(api.path_of(definition)), "Established"):
        if time.monotonic() > deadline:
            conditions = (current.get("status") or {}).get("conditions") or ()
            faults = "; ".join(
                str(condition.get("message", "")) for condition in conditions if condition.get("status") == "False"
            )
            name = definition["metadata"]["name"]
            raise ManifestUnusable(f"{DEFINITION} {name} is not Established within {ESTABLISHED_S:g} s: {faults}")
        time.sleep(POLL_S)


def _namespaces(api: Api, manifest: Manifest) -> Iterator[Object]:
    own = {other["metadata"]["name"] for other in manifest.others if other["kind"] == "Namespace"}
    used = {str(obj["metadata"].get("namespace") or "") for obj in (manifest.daemon_set, *manifest.others)}
    there = {item["metadata"]["name"] for item in api.get("/api/v1/namespaces")["items"]}
    for name in sorted(used - own - there - {""}):
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
