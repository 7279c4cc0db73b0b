"""The messages by name, built from schemas/ when the first one is asked for."""

import functools
from collections.abc import Iterator

from protocols.kube.protobuf.schemas import (
    cluster,
    core_containers,
    core_objects,
    core_pod,
    core_volumes,
    others,
    resource,
)
from protocols.kube.protobuf.schemas import core_objects as meta
from protocols.kube.protobuf.types import SCALARS, Field, KindUnknown, Message, Shape
from protocols.kube.protobuf.values import VALUES

LEAVES = {**SCALARS, **VALUES}
POD = (core_pod.POD, core_pod.POD_STATUS, core_containers.CONTAINERS, core_volumes.VOLUMES)
CORE = (core_objects.OBJECTS, *POD, cluster.CORE_CLUSTER)
TEXTS = {
    "meta": meta.META,
    "core": "".join(CORE),
    "coordination": others.COORDINATION,
    "policy": others.POLICY,
    "events": others.EVENTS,
    "rbac": others.RBAC,
    "authentication": others.AUTHENTICATION,
    "authorization": others.AUTHORIZATION,
    "resource": resource.RESOURCE,
    "resource-v1beta1": resource.RESOURCE_BETA1,
    "discovery": cluster.DISCOVERY,
    "scheduling": cluster.SCHEDULING,
    "node": cluster.NODE,
    "storage": cluster.STORAGE,
}
DRA = "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice"
KINDS = {
    "v1": (
        "core",
        "Binding ConfigMap Endpoints Event Namespace Node PersistentVolume PersistentVolumeClaim Pod Secret Service "
        "ServiceAccount",
    ),
    "discovery.k8s.io/v1": ("discovery", "EndpointSlice"),
    "scheduling.k8s.io/v1": ("scheduling", "PriorityClass"),
    "node.k8s.io/v1": ("node", "RuntimeClass"),
    "storage.k8s.io/v1": ("storage", "CSIDriver CSINode StorageClass"),
    "coordination.k8s.io/v1": ("coordination", "Lease"),
    "policy/v1": ("policy", "Eviction"),
    "events.k8s.io/v1": ("events", "Event"),
    "rbac.authorization.k8s.io/v1": ("rbac", "ClusterRole ClusterRoleBinding Role RoleBinding"),
    "authentication.k8s.io/v1": ("authentication", "SelfSubjectReview TokenRequest TokenReview"),
    "authorization.k8s.io/v1": (
        "authorization",
        "LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview",
    ),
    "resource.k8s.io/v1": ("resource", DRA),
    "resource.k8s.io/v1beta2": ("resource", f"{DRA} DeviceTaintRule"),
    "resource.k8s.io/v1beta1": ("resource-v1beta1", DRA),
    "resource.k8s.io/v1alpha3": ("resource", "DeviceTaintRule"),
}
"""The package of each version, and what can stand at the top of a body. Each has a list of the same form."""
EVERYWHERE = ("DeleteOptions", "Status")
"""Kinds of meta/v1 that are part of every version."""


def message_of(api_version: str, kind: str) -> Message:
    """Raises KindUnknown."""
    found = _kinds().get((api_version, kind))
    if found is None and kind in EVERYWHERE:
        found = messages()[f"meta.{kind}"]
    if found is None:
        raise KindUnknown(api_version, kind)
    return found


def is_known(api_version: str, kind: str) -> bool:
    return (api_version, kind) in _kinds()


@functools.cache
def messages() -> dict[str, Message]:
    """Every message, by `package.Name`."""
    lines = [(package, *line) for package, text in TEXTS.items() for line in _lines(text)]
    found = {f"{package}.{name}": Message(f"{package}.{name}") for package, name, _ in lines}
    for package, name, fields in lines:
        for field in fields:
            parsed = _field(package, field, found)
            found[f"{package}.{name}"].fields[parsed.number] = parsed
    return found


@functools.cache
def _kinds() -> dict[tuple[str, str], Message]:
    found = {}
    for api_version, (package, kinds) in KINDS.items():
        for kind in kinds.split():
            message = found[api_version, kind] = messages()[f"{package}.{kind}"]
            found[api_version, f"{kind}List"] = _list_of(message)
    return found


def _list_of(message: Message) -> Message:
    metadata = Field(1, "metadata", Shape.ONE, message=messages()["meta.ListMeta"])
    items = Field(2, "items", Shape.LIST, message=message)
    return Message(f"{message.name}List", {1: metadata, 2: items})


def _lines(text: str) -> Iterator[tuple[str, list[str]]]:
    """(message, its fields); a line that begins with a space continues the one before."""
    for line in text.strip().replace("\n ", " ").split("\n"):
        name, _, fields = line.partition(":")
        yield name, fields.split()


def _field(package: str, text: str, found: dict[str, Message]) -> Field:
    number, name, kind = text.split(":")
    shape = {"[]": Shape.LIST, "{}": Shape.MAP}.get(kind[:2], Shape.INLINE if kind.endswith("&") else Shape.ONE)
    keep, kind = kind.endswith("!"), kind.strip("[]{}!&")
    leaf = LEAVES.get(kind)
    if leaf is not None:
        return Field(int(number), name, shape, leaf=leaf, keep_zero=keep or not leaf.scalar)
    return Field(int(number), name, shape, message=found[kind if "." in kind else f"{package}.{kind}"])
