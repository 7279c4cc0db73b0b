"""Secrets, configmaps and claims of devices and volumes that the pods of a node refer to, which the node may read.

Secrets of a volume are read through the claim of a pod, too.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Set
from typing import Any

from actors.apiserver.api.stored import Stored
from protocols.bounded import BoundedMap
from protocols.kube.meta import CONTAINER_LISTS, Object, name_of
from protocols.kube.objects import at, is_mirror, items, text

CACHED = 4096
"""Cached positive answers; each is verified when it is used."""
VOLUMES = {
    "secrets": (("secret", "secretName"),),
    "configmaps": (("configMap", "name"),),
}
VOLUME_CLAIMS = "persistentvolumeclaims"
VOLUME_SECRETS = ("azureFile", "cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos")
CLAIM = ("spec", "claimRef")
CSI_SECRETS = ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef")
"""Secrets of a CSI volume that kubelets read; those of its controller are no node's."""


class NodeGraph:
    """References of pods to objects. Only pods and volumes whose bytes contain the names are decoded."""

    def __init__(
        self,
        pods: Callable[[str], Iterable[Stored]],
        pod: Callable[[str], Stored | None],
        volumes: Callable[[], Iterable[Stored]] = tuple,
    ) -> None:
        """`pods` lists a namespace, `pod` returns the pod of `namespace/name`, `volumes` lists PersistentVolumes."""
        self._pods, self._pod, self._volumes = pods, pod, volumes
        self._known = BoundedMap[tuple[str, str, str, str], str](CACHED)

    def uses(self, node: str, resource: str, namespace: str, name: str) -> bool:
        """Return True if a pod bound to `node` refers to the object, or a volume of one to the secret."""
        if not namespace or not name:
            return False
        question = (node, resource, namespace, name)
        known = self._pod(self._known.get(question, ""))
        if known is not None and _refers(known, node, resource, {name}):
            self._known.move_to_end(question)
            return True
        using = next((pod for pod in self._pods(namespace) if _refers(pod, node, resource, {name})), None)
        if using is None:
            self._known.pop(question, None)
            return resource == "secrets" and self._volume_uses(node, namespace, name)
        self._known[question] = using.key
        return True

    def _volume_uses(self, node: str, namespace: str, name: str) -> bool:
        """Look once at each volume, and at each pod of a namespace that has claims of such volumes."""
        claims = defaultdict[str, set[str]](set)
        for volume in self._volumes():
            if name.encode() in volume.raw and (namespace, name) in volume_secrets(volume.obj):
                claims[text(volume.obj, *CLAIM, "namespace")].add(text(volume.obj, *CLAIM, "name"))
        return any(
            _refers(pod, node, VOLUME_CLAIMS, names)
            for space, names in claims.items()
            if space
            for pod in self._pods(space)
        )


def _refers(pod: Stored, node: str, resource: str, names: Set[str]) -> bool:
    if node.encode() not in pod.raw:
        return False
    if resource != VOLUME_CLAIMS and not any(name.encode() in pod.raw for name in names):
        return False
    if text(pod.obj, "spec", "nodeName") != node or is_mirror(pod.obj):  # a node makes its mirror pods itself
        return False
    return not references(pod.obj, resource).isdisjoint(names)


def volume_secrets(volume: Object) -> set[tuple[str, str]]:
    """Return namespace and name of the secrets that kubelets read for a PersistentVolume."""
    spec, own = at(volume, "spec"), text(volume, *CLAIM, "namespace")
    refs = [at(spec, kind, "secretRef") for kind in VOLUME_SECRETS] + [at(spec, "csi", kind) for kind in CSI_SECRETS]
    pairs = {(text(ref, "namespace") or own, text(ref, "name")) for ref in refs}
    return pairs | {(text(spec, "azureFile", "secretNamespace") or own, text(spec, "azureFile", "secretName"))}


def references(pod: Object, resource: str) -> set[str]:
    """Return the names that a pod refers to, of secrets, configmaps, claims or serviceaccounts."""
    if resource == "serviceaccounts":
        return {text(pod, "spec", "serviceAccountName")} - {""}
    if resource == "resourceclaims":
        return set(_claims(pod)) - {""}
    if resource == VOLUME_CLAIMS:
        return set(_volume_claims(pod)) - {""}
    names = set(_volumes(pod, resource)) | set(_environment(pod, resource))
    if resource == "secrets":
        names.update(text(secret, "name") for secret in items(pod, "spec", "imagePullSecrets"))
    return names - {""}


def _claims(pod: Object) -> Iterator[str]:
    for claim in items(pod, "spec", "resourceClaims"):
        yield text(claim, "resourceClaimName")
    for status in items(pod, "status", "resourceClaimStatuses"):
        yield text(status, "resourceClaimName")
    yield text(pod, "status", "extendedResourceClaimStatus", "resourceClaimName")


def _volume_claims(pod: Object) -> Iterator[str]:
    for volume in items(pod, "spec", "volumes"):
        yield text(volume, "persistentVolumeClaim", "claimName")
        if volume.get("ephemeral") is not None:  # its claim is named after both
            yield f"{name_of(pod)}-{text(volume, 'name')}"


def _volumes(pod: Object, resource: str) -> Iterator[str]:
    for volume in items(pod, "spec", "volumes"):
        for source in (volume, *items(volume, "projected", "sources")):
            yield from (text(source, *path) for path in VOLUMES[resource])
            yield text(source, *(("secret", "name") if resource == "secrets" else ("configMap", "name")))
        if resource == "secrets":
            yield text(volume, "csi", "nodePublishSecretRef", "name")
            yield from (_secret_of(volume.get(kind)) for kind in VOLUME_SECRETS)


def _secret_of(source: Any) -> str:
    return text(source, "secretRef", "name") or text(source, "secretName")


def _environment(pod: Object, resource: str) -> Iterator[str]:
    key, source = ("secretKeyRef", "secretRef") if resource == "secrets" else ("configMapKeyRef", "configMapRef")
    for kind in CONTAINER_LISTS:
        for container in items(pod, "spec", kind):
            yield from (text(variable, "valueFrom", key, "name") for variable in items(container, "env"))
            yield from (text(env_from, source, "name") for env_from in items(container, "envFrom"))
