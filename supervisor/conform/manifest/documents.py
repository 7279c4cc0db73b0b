"""The documents of a manifest, and the pod that its DaemonSet would have on a node. Pure but for the reading."""

import os
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from protocols.kinds.table import DAEMONSETS
from protocols.kube.errors import KubeError
from protocols.kube.yaml_text import read_documents
from protocols.process.files import read_input
from protocols.process.layout import SYSTEM_CDI
from supervisor.base.errors import UsageError
from supervisor.conform.async_api import Object

EXPANDED = 100_000
"""Values and characters that YAML's aliases may add."""
DEFINITION = "CustomResourceDefinition"
BEFORE_OTHERS = ("Namespace", DEFINITION, "PriorityClass", "ServiceAccount")
KUBELET = Path("/var/lib/kubelet")
CDI_DIRECTORIES = (*SYSTEM_CDI, Path("/run/cdi"))
OF_THE_SCHEDULER = ("nodeSelector", "affinity", "topologySpreadConstraints")
"""Fields of a pod that choose a node; here there is one."""


class ManifestUnusable(UsageError, grpc="FAILED_PRECONDITION"):
    """Raised for a manifest whose DaemonSet cannot be run and judged; the text names the object."""


class Manifest(NamedTuple):
    """`others` are the other objects, in the order in which they are applied."""

    daemon_set: Object
    others: list[Object]

    @property
    def namespace(self) -> str:
        return str(self.daemon_set["metadata"].get("namespace") or "default")

    @property
    def title(self) -> str:
        return f"DaemonSet {self.namespace}/{self.daemon_set['metadata']['name']}"


class HostPaths(NamedTuple):
    """Places on this machine of a node's directories: the kubelet's, and those of CDI files."""

    kubelet: Path
    cdi: Path

    def here(self, path: str) -> Path:
        places = [(KUBELET, self.kubelet), *((directory, self.cdi) for directory in CDI_DIRECTORIES)]
        clean = Path(os.path.normpath(path))
        return next((here / clean.relative_to(place) for place, here in places if clean.is_relative_to(place)), clean)


def read_manifest(source: str) -> Manifest:
    """Read a file, or standard input for `-`. Raises ManifestUnusable."""
    try:
        documents = [document.value for document in read_documents(read_input(source), EXPANDED) if document.value]
    except OSError as error:
        raise ManifestUnusable(f"--manifest {source}: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise ManifestUnusable(f"--manifest {source}: {' '.join(str(error).split())}") from None
    return manifest_of(source, list(_objects(source, documents)))


def manifest_of(source: str, objects: Sequence[Object]) -> Manifest:
    """Return the one DaemonSet and what is beside it. Raises ManifestUnusable."""
    daemon_sets = [obj for obj in objects if obj["kind"] == "DaemonSet"]
    if not daemon_sets:
        kinds = ", ".join(sorted({obj["kind"] for obj in objects})) or "nothing"
        raise ManifestUnusable(f"--manifest {source}: it has no DaemonSet, but {kinds}")
    if len(daemon_sets) > 1:
        names = ", ".join(obj["metadata"]["name"] for obj in daemon_sets)
        raise ManifestUnusable(f"--manifest {source}: it has {len(daemon_sets)} DaemonSets, {names}: leave one in it")
    others = [obj for obj in objects if obj["kind"] != "DaemonSet"]
    manifest = Manifest(daemon_sets[0], sorted(others, key=_turn))
    _check_types(source, manifest)
    return manifest


def _check_types(source: str, manifest: Manifest) -> None:
    from protocols.kinds.shapes.stored import as_stored  # slow to load

    try:
        as_stored(manifest.daemon_set, DAEMONSETS)
    except KubeError as error:
        raise ManifestUnusable(f"--manifest {source}: {manifest.title}: {error}") from None


def _objects(source: str, documents: Sequence[Any]) -> Iterator[Object]:
    for document in documents:
        named = isinstance(document, dict) and isinstance(document.get("kind"), str)
        if named and document["kind"].endswith("List") and isinstance(document.get("items"), list):
            yield from _objects(source, document["items"])
        elif named and isinstance(document.get("metadata"), dict) and document["metadata"].get("name"):
            yield document
        else:
            raise ManifestUnusable(f"--manifest {source}: a document is no object with kind and metadata.name")


def _turn(obj: Object) -> int:
    return BEFORE_OTHERS.index(obj["kind"]) if obj["kind"] in BEFORE_OTHERS else len(BEFORE_OTHERS)


def pod_of(manifest: Manifest, node: str, paths: HostPaths) -> Object:
    """Return the pod of the DaemonSet on a node, without a name. Its containers are not restarted: conform does that.

    Raises ManifestUnusable if the template has no containers, or no volume that reaches the kubelet's directory.
    """
    template = (manifest.daemon_set.get("spec") or {}).get("template") or {}
    if not isinstance(template.get("spec"), dict) or not template["spec"].get("containers"):
        raise ManifestUnusable(f"{manifest.title}: its template has no containers")
    spec = {name: deepcopy(value) for name, value in template["spec"].items() if name not in OF_THE_SCHEDULER}
    host_paths = [volume["hostPath"] for volume in spec.get("volumes") or () if volume.get("hostPath")]
    for path in host_paths:
        path["path"] = str(paths.here(str(path.get("path", ""))))
    if not any(Path(path["path"]).is_relative_to(paths.kubelet) for path in host_paths):
        raise ManifestUnusable(
            f"{manifest.title}: no hostPath volume is below {KUBELET}, so that it cannot reach the kubelet;"
            " --kubelet-dir names another directory"
        )
    spec |= {"nodeName": node, "restartPolicy": "Never", "tolerations": [{"operator": "Exists"}]}
    given = template.get("metadata") or {}
    metadata = {name: given[name] for name in ("labels", "annotations") if given.get(name)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "namespace": manifest.namespace},
        "spec": spec,
    }


def containers_of(pod: Object) -> list[Object]:
    """Return the containers of a pod in the order of their start."""
    return [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]


def check_commands(manifest: Manifest, pod: Object) -> None:
    """Raise ManifestUnusable for a container that only an image can run: the embedded runtime fetches none."""
    for container in containers_of(pod):
        if not container.get("command"):
            raise ManifestUnusable(
                f"{manifest.title}: container {container.get('name')} has no command, and its image"
                f" {container.get('image')} is not here: --image FILE imports it, --runtime names a runtime that has it"
            )
