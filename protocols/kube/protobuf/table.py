"""The messages by name. Those of a package are built from schemas/ when the first of it is asked for."""

import functools
from collections.abc import Iterator

from protocols.kube.protobuf.schemas import (
    cluster,
    core_containers,
    core_objects,
    core_pod,
    core_quotas,
    core_volumes,
    extensions,
    others,
    policies,
    resource,
    workloads,
)
from protocols.kube.protobuf.schemas import core_objects as meta
from protocols.kube.protobuf.types import SCALARS, Field, KindUnknown, Message, Shape
from protocols.kube.protobuf.unions import UNIONS
from protocols.kube.protobuf.values import VALUES

LEAVES = {**SCALARS, **VALUES}
POD = (core_pod.POD, core_pod.POD_STATUS, core_containers.CONTAINERS, core_volumes.VOLUMES)
CORE = (core_objects.OBJECTS, *POD, cluster.CORE_CLUSTER, core_quotas.CORE_QUOTAS)
TEXTS = {
    "meta": meta.META,
    "core": "".join(CORE),
    "coordination": others.COORDINATION,
    "policy": others.POLICY + policies.DISRUPTION,
    "events": others.EVENTS,
    "rbac": others.RBAC,
    "authentication": others.AUTHENTICATION,
    "authorization": others.AUTHORIZATION,
    "resource": resource.RESOURCE,
    "resource-v1beta1": resource.RESOURCE_BETA1,
    "discovery": cluster.DISCOVERY,
    "scheduling": cluster.SCHEDULING,
    "node": cluster.NODE,
    "storage": cluster.STORAGE + core_quotas.ATTACHMENTS,
    "apps": workloads.APPS,
    "batch": workloads.BATCH,
    "autoscaling": workloads.AUTOSCALING,
    "autoscaling-v2": workloads.AUTOSCALING_V2,
    "networking": policies.NETWORKING,
    "flowcontrol": policies.FLOWCONTROL,
    "certificates": policies.CERTIFICATES,
    "apiextensions": extensions.APIEXTENSIONS,
    "admissionregistration": extensions.ADMISSION,
}
DRA = "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice"
KINDS = {
    "v1": (
        "core",
        "Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume "
        "PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount",
    ),
    "meta.k8s.io/v1": ("meta", "PartialObjectMetadata"),
    "meta.k8s.io/v1beta1": ("meta", "PartialObjectMetadata"),
    "discovery.k8s.io/v1": ("discovery", "EndpointSlice"),
    "scheduling.k8s.io/v1": ("scheduling", "PriorityClass"),
    "node.k8s.io/v1": ("node", "RuntimeClass"),
    "storage.k8s.io/v1": (
        "storage",
        "CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass",
    ),
    "coordination.k8s.io/v1": ("coordination", "Lease"),
    "policy/v1": ("policy", "Eviction PodDisruptionBudget"),
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
    "apps/v1": ("apps", "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet"),
    "batch/v1": ("batch", "CronJob Job"),
    "autoscaling/v1": ("autoscaling", "HorizontalPodAutoscaler Scale"),
    "autoscaling/v2": ("autoscaling-v2", "HorizontalPodAutoscaler"),
    "networking.k8s.io/v1": ("networking", "IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR"),
    "flowcontrol.apiserver.k8s.io/v1": ("flowcontrol", "FlowSchema PriorityLevelConfiguration"),
    "certificates.k8s.io/v1": ("certificates", "CertificateSigningRequest"),
    "apiextensions.k8s.io/v1": ("apiextensions", "CustomResourceDefinition"),
    "admissionregistration.k8s.io/v1": (
        "admissionregistration",
        "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration ValidatingAdmissionPolicy "
        "ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration",
    ),
}
"""The package of each version, and what can stand at the top of a body. Each has a list of the same form."""
EVERYWHERE = ("DeleteOptions", "Status")
"""Kinds of meta/v1 that are part of every version."""


def message_of(api_version: str, kind: str) -> Message:
    """Raises KindUnknown."""
    found = _kinds().get((api_version, kind))
    if found is not None:
        return _top(*found)
    if kind in EVERYWHERE:
        return _package("meta")[kind]
    raise KindUnknown(api_version, kind)


def is_known(api_version: str, kind: str) -> bool:
    return (api_version, kind) in _kinds()


def messages() -> dict[str, Message]:
    """Every message, by `package.Name`."""
    return {f"{package}.{name}": found for package in TEXTS for name, found in _package(package).items()}


@functools.cache
def _package(package: str) -> dict[str, Message]:
    """The messages of a package by name; those of other packages that they hold are built too."""
    lines = list(_lines(TEXTS[package]))
    found = {name: Message(f"{package}.{name}", union=UNIONS.get(name)) for name, _ in lines}
    for name, fields in lines:
        for field in fields:
            parsed = _field(field, found)
            found[name].fields[parsed.number] = parsed
    return found


@functools.cache
def _kinds() -> dict[tuple[str, str], tuple[str, str, bool]]:
    """Package, name and whether it is the list, by version and kind."""
    found = {}
    for api_version, (package, kinds) in KINDS.items():
        for kind in kinds.split():
            found[api_version, kind] = package, kind, False
            found[api_version, f"{kind}List"] = package, kind, True
    return found


@functools.cache
def _top(package: str, name: str, listing: bool) -> Message:
    message = _package(package)[name]
    return _list_of(message) if listing else message


def _list_of(message: Message) -> Message:
    metadata = Field(1, "metadata", Shape.ONE, message=_package("meta")["ListMeta"])
    items = Field(2, "items", Shape.LIST, message=message)
    return Message(f"{message.name}List", {1: metadata, 2: items})


def _lines(text: str) -> Iterator[tuple[str, list[str]]]:
    """(message, its fields); a line that begins with a space continues the one before."""
    for line in text.strip().replace("\n ", " ").split("\n"):
        name, _, fields = line.partition(":")
        yield name, fields.split()


def _field(text: str, found: dict[str, Message]) -> Field:
    number, name, kind = text.split(":")
    shape = {"[]": Shape.LIST, "{}": Shape.MAP}.get(kind[:2], Shape.INLINE if kind.endswith("&") else Shape.ONE)
    keep, kind = kind.endswith("!"), kind.strip("[]{}!&")
    leaf = LEAVES.get(kind)
    if leaf is not None:
        return Field(int(number), name, shape, leaf=leaf, keep_zero=keep or not leaf.scalar)
    package, _, local = kind.rpartition(".")
    return Field(int(number), name, shape, message=(_package(package) if package else found)[local])
