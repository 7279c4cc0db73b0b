"""Read the manifest directory: static pods and their mirrors. Only changed files are read again."""

import hashlib
import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from actors.podworker.model.errors import ManifestInvalid
from protocols.kinds import views
from protocols.kinds.check.causes import Cause
from protocols.kube.errors import BodyInvalid
from protocols.kube.jsons import decode_body
from protocols.kube.meta import Object
from protocols.kube.names import label_fault
from protocols.kube.objects import MIRROR
from protocols.lifecycle.pods.types import SOURCE

HASH = "kubernetes.io/config.hash"
LARGEST = 10 * 1024 * 1024
EXPANDED = 1 << 20
"""Characters and values that aliases add to a manifest."""
MOST_TOLD = 3
"""Causes that one line of the log names."""
EVERYWHERE = {"operator": "Exists", "effect": "NoExecute"}
FORBIDDEN = (
    "serviceAccountName",
    "serviceAccount",
    "resourceClaims",
    "configMapKeyRef",
    "secretKeyRef",
    "configMapRef",
    "secretRef",
    "imagePullSecrets",
    "persistentVolumeClaim",
    "serviceAccountToken",
)
Stamp = tuple[int, int, int]
UNREADABLE: Stamp = (0, 0, 0)


def static_pod(path: str, text: bytes, node: str) -> views.Pod:
    """Return the static pod of a manifest. Raises ManifestInvalid.

    The uid depends on node, path and content: changed content is another pod.
    """
    obj = _parse(text)
    if not isinstance(obj, dict) or obj.get("kind") != "Pod" or obj.get("apiVersion") != "v1":
        raise ManifestInvalid("not one object of kind Pod, apiVersion v1")
    if reference := _reference(obj.get("spec")):
        raise ManifestInvalid(f"a static pod may not refer to API objects, and this one has a {reference}")
    pod = _of_node(_typed(obj), path, text, node)
    if causes := _causes(pod):
        raise ManifestInvalid("; ".join(f"{cause.field}: {cause.message}" for cause in causes[:MOST_TOLD]))
    return cast("views.Pod", pod)


def _typed(obj: Object) -> Object:
    """Return the pod with the fields that pods have, and their defaults. Raises ManifestInvalid for a wrong type.

    Kinds are loaded with the first manifest: most nodes have none.
    """
    from protocols.kinds.pods.pods import PODS
    from protocols.kinds.shapes.clean import WrongType, clean

    assert PODS.shape is not None
    try:
        clean(obj, PODS.shape)
    except WrongType as error:
        raise ManifestInvalid(str(error)) from None
    PODS.strategy.default(obj)
    return obj


def _causes(pod: Object) -> list[Cause]:
    """Return what the API server would find wrong with the pod: it is never asked."""
    from protocols.kinds.pods.pods import PODS
    from protocols.kinds.served.object_meta import metadata_causes

    return metadata_causes(pod, PODS) + PODS.strategy.validate_create(pod)


def _of_node(obj: Object, path: str, text: bytes, node: str) -> Object:
    metadata, spec = obj["metadata"], obj["spec"]
    uid = str(metadata.get("uid") or _uid(node, path, text))
    metadata |= {
        "name": f"{metadata.get('name') or ''}-{node.lower()}",
        "namespace": metadata.get("namespace") or "default",
        "uid": uid,
        "annotations": {**(metadata.get("annotations") or {}), SOURCE: "file", HASH: uid},
    }
    spec |= {"nodeName": node, "tolerations": [*(spec.get("tolerations") or ()), EVERYWHERE]}
    if label_fault(uid.lower()):  # it becomes the name of a directory
        raise ManifestInvalid(f"metadata.uid {uid!r}: may only hold letters, digits and -, at most 63")
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def mirror_of(pod: views.Pod, node_uid: str) -> views.Pod:
    """Return the mirror pod of a static pod, owned by the node, as kubelet makes it."""
    own, node = pod["metadata"], pod["spec"]["nodeName"]
    metadata: views.ObjectMeta = {
        "name": own["name"],
        "namespace": own["namespace"],
        "annotations": {**own["annotations"], MIRROR: own["uid"]},
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid, "controller": True}
        ],
    }  # fmt: skip
    if "labels" in own:
        metadata["labels"] = own["labels"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]}


def mirrored(pod: views.Pod) -> str:
    """Return the uid of the static pod that an API pod mirrors; empty for ordinary pods."""
    return str(((pod.get("metadata") or {}).get("annotations") or {}).get(MIRROR) or "")


def full_name(pod: views.Pod) -> str:
    """Return NAMESPACE/NAME."""
    metadata = pod.get("metadata") or {}
    return f"{metadata.get('namespace')}/{metadata.get('name')}"


def _uid(node: str, path: str, text: bytes) -> str:
    return hashlib.sha256(b"\0".join((node.encode(), path.encode(), text))).hexdigest()[:32]


def _parse(text: bytes) -> Any:
    """Parse YAML or JSON. The parser is loaded with the first manifest: most nodes have none."""
    if text.lstrip()[:1] == b"{":
        with suppress(BodyInvalid):  # braces may begin YAML, too
            return decode_body(text)
    import yaml

    from protocols.kube.yaml_text import read_yaml

    try:
        return read_yaml(text, EXPANDED).value
    except yaml.YAMLError as error:
        raise ManifestInvalid(f"not YAML or JSON: {' '.join(str(error).split())}") from None


def _reference(value: Any) -> str:
    """Return the first key that refers to an API object; empty if there is none."""
    if isinstance(value, dict):
        for key, inner in value.items():
            volume = key in ("configMap", "secret") and isinstance(inner, dict)
            if inner and (key in FORBIDDEN or volume):
                return str(key)
            if reference := _reference(inner):
                return reference
    if isinstance(value, list):
        return next((reference for item in value if (reference := _reference(item))), "")
    return ""


class ManifestDirectory:
    """Static pods of a directory. `on_fault(text)` is called once per version of an unusable file."""

    def __init__(self, path: Path, node: str, on_fault: Callable[[str], None]) -> None:
        self._path = path
        self._node = node
        self._on_fault = on_fault
        self._files: dict[str, tuple[Stamp, views.Pod | None]] = {}
        self._duplicates = set[str]()
        """Reported faults of files that name a pod of another file."""
        self._fault = ""
        """Why the directory could not be listed last; empty if it could."""
        self.listed = False
        """True once the directory was listed, or found missing: then pods that it does not have are orphans."""

    def read(self) -> dict[str, views.Pod]:
        """Return static pods by uid. Blocking.

        A file that becomes invalid retains its last valid pod, a directory that cannot be listed all of them.
        """
        files: dict[str, tuple[Stamp, views.Pod | None]] = {}
        try:
            names = sorted(name for name in os.listdir(self._path) if not name.startswith("."))
        except FileNotFoundError:
            names = []
        except OSError as error:
            self._on_directory(error)
            return self._pods()
        self._fault, self.listed = "", True
        for name in names:
            before = self._files.get(name)
            if (entry := self._entry(name, before)) is not None:
                files[name] = entry
        self._files = files
        return self._pods()

    def _pods(self) -> dict[str, views.Pod]:
        """Return pods by uid; of those with the same namespace and name that of the first file, as kubelet."""
        pods: dict[str, views.Pod] = {}
        firsts: dict[str, str] = {}
        duplicates = set[str]()
        for file, pod in ((name, pod) for name, (_, pod) in self._files.items() if pod is not None):
            if (first := firsts.setdefault(full_name(pod), file)) == file:
                pods[pod["metadata"]["uid"]] = pod
            else:
                duplicates.add(f"manifest {file}: ignored, {first} has the pod {full_name(pod)} already")
        for text in sorted(duplicates - self._duplicates):
            self._on_fault(text)
        self._duplicates = duplicates
        return pods

    def _on_directory(self, error: OSError) -> None:
        """Report why the directory cannot be listed, once."""
        text = f"manifest directory {self._path}: {os.strerror(error.errno or 0).lower()}"
        if text != self._fault:
            self._on_fault(text)
        self._fault = text

    def uids(self, names: Iterable[str]) -> set[str]:
        """Return the uids of the pods that these files had when they were read."""
        pods = (self._files[name][1] for name in names if name in self._files)
        return {pod["metadata"]["uid"] for pod in pods if pod is not None}

    def _entry(self, name: str, before: tuple[Stamp, views.Pod | None] | None) -> tuple[Stamp, views.Pod | None] | None:
        try:
            with open(self._path / name, "rb", opener=_open) as file:
                info = os.fstat(file.fileno())
                stamp = (info.st_mtime_ns, info.st_size, info.st_ino)
                if not stat.S_ISREG(info.st_mode):
                    return None
                if before is not None and before[0] == stamp:
                    return before
                text = file.read(LARGEST + 1)
        except (FileNotFoundError, IsADirectoryError):
            return None
        except OSError as error:
            if before is None or before[0] != UNREADABLE:
                self._on_fault(f"manifest {name}: {os.strerror(error.errno or 0).lower()}")
            return UNREADABLE, before[1] if before else None
        return stamp, self._pod(name, text, before[1] if before else None)

    def _pod(self, name: str, text: bytes, last: views.Pod | None) -> views.Pod | None:
        try:
            if len(text) > LARGEST:
                raise ManifestInvalid(f"larger than {LARGEST} bytes")
            return static_pod(str(self._path / name), text, self._node)
        except ManifestInvalid as error:
            self._on_fault(f"manifest {name}: {error}")
            return last


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
