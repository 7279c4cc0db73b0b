"""The status of pods: what a write of it keeps, and its validation. Messages equal upstream's."""

from typing import Any

from protocols.kinds.check.causes import Cause, duplicate, forbidden, invalid, required
from protocols.kinds.check.table import Causes, Struct, at_least, causes_of, each, needed, once, texts
from protocols.kinds.check.values import address, identity, ip, label_key, longest, subdomain
from protocols.kube.meta import Object
from protocols.kube.names import label_faults, subdomain_faults
from protocols.kube.objects import at, items
from protocols.kube.pods import node_of

NEVER, FINAL = "Never", "may not be transitioned to non-terminated state"
BOUND = "may not be set on pods that are already bound to a node"
ONE_OF_A_FAMILY = "may specify no more than one IP for each IP family"
NO_CLAIM = "must match the name of an entry in `spec.resourceClaims`"


def complete_status(status: Object, old: Object) -> None:
    """Retain generations that the author does not report, and make podIPs agree with podIP, which wins."""
    if not status.get("observedGeneration") and old.get("observedGeneration"):
        status["observedGeneration"] = old["observedGeneration"]
    before = {condition.get("type"): condition.get("observedGeneration") for condition in items(old, "conditions")}
    for condition in items(status, "conditions"):
        generation = before.get(condition.get("type"))
        if generation and not condition.get("observedGeneration"):
            condition["observedGeneration"] = generation
    status.pop("nodeAllocatableResourceClaimStatuses", None)  # its gate is disabled by default
    _sync_addresses(status)


def _sync_addresses(status: Object) -> None:
    first, every = status.get("podIP"), status.get("podIPs")
    if first and (not every or every[0].get("ip") != first):
        status["podIPs"] = [{"ip": first}]
    elif every and every[0].get("ip") and not first:
        status["podIP"] = every[0]["ip"]


_generation = at_least(0, "must be a non-negative integer")


def _condition(path: str, value: Object, causes: Causes) -> None:
    label_key(f"{path}.Type", value.get("type") or "", causes)
    _generation(f"{path}.observedGeneration", value.get("observedGeneration") or 0, causes)


def _addresses(path: str, values: list[Object], causes: Causes) -> None:
    texts = [value.get("ip") or "" for value in values]
    for index, text in enumerate(texts):
        ip(f"{path}[{index}]", text, causes)
    if len(texts) < 2:
        return
    parsed = [address(text) for text in texts]
    if None in parsed:
        index = parsed.index(None)
        text = f"Internal error: failed to check for dual stack with error:invalid IP[{index}]: {texts[index]}"
        causes.append(Cause(path, "InternalError", text))
    families = {ip_address.version for ip_address in parsed if ip_address is not None}
    if None in parsed or len(families) < 2 or len(texts) > 2:
        causes.append(invalid(path, values, ONE_OF_A_FAMILY))


_name = texts(subdomain_faults, empty=True)
_user = Struct(linux=Struct(uid=identity, gid=identity, supplementalGroups=each(identity)))
_image = Struct(imageRef=needed(longest(256), "imageRef must not be empty"))


def _mount(path: str, mount: Object, causes: Causes) -> None:
    if image := at(mount, "volumeStatus", "image"):
        _image(f"{path}.volumeStatus.imageVolumeStatus", image, causes)


_container = Struct(user=_user, volumeMounts=each(_mount))
STATUS = Struct(
    conditions=each(_condition),
    podIPs=_addresses,
    hostIPs=_addresses,
    observedGeneration=_generation,
    containerStatuses=each(_container),
    initContainerStatuses=each(_container),
    ephemeralContainerStatuses=each(_container),
)


def status_causes(new: Object, old: Object) -> list[Cause]:
    """Check a write of a pod's status; the QoS class is immutable."""
    status: Any = new.get("status") or {}
    causes = causes_of(STATUS, "status", status)
    hosts = status.get("hostIPs")
    if hosts and (hosts[0].get("ip") or "") != (status.get("hostIP") or ""):
        causes.append(invalid("status.hostIPs[0].ip", hosts[0].get("ip") or "", "must be equal to `hostIP`"))
    if (node := status.get("nominatedNodeName") or "") != (at(old, "status", "nominatedNodeName") or ""):
        subdomain("status.nominatedNodeName", node, causes)
        if node and node_of(old):
            causes.append(forbidden("status.nominatedNodeName", BOUND))
    was = at(old, "status", "qosClass")
    if was and status.get("qosClass") != was:
        causes.append(invalid("status.qosClass", status.get("qosClass") or "", "field is immutable"))
    return causes + _claim_causes(status, new) + _extended_causes(status, new) + _revival_causes(status, old)


CONTAINERS = {"containerStatuses": "containers", "initContainerStatuses": "initContainers"}


def _revival_causes(status: Object, old: Object) -> list[Cause]:
    """Report containers that are over for good in the stored status and are not in the new one."""
    spec: Object = old.get("spec") or {}
    causes: Causes = []
    for field in (*CONTAINERS, "ephemeralContainerStatuses"):
        specs = {container.get("name"): container for container in items(spec, CONTAINERS.get(field, ""))}
        alive = {entry.get("name") for entry in items(status, field) if at(entry, "state", "terminated") is None}
        policy = str(spec.get("restartPolicy")) if field in CONTAINERS else NEVER
        for index, entry in enumerate(items(old, "status", field)):
            ended = at(entry, "state", "terminated")
            if ended is None or (name := entry.get("name")) not in alive:
                continue
            alive.discard(name)  # one check for each name, since rules may be long
            if not _restarts(policy, specs.get(name, {}), ended):
                causes.append(forbidden(f"status.{field}[{index}].state", FINAL))
    return [] if causes and _restarts_all(spec) else causes


def _restarts(pod_policy: str, container: Object, ended: Object) -> bool:
    """Return True if a container restarts after this end, by its rules, its policy or that of its pod."""
    code = ended.get("exitCode") or 0
    if any(_matches(rule.get("exitCodes") or {}, code) for rule in container.get("restartPolicyRules") or ()):
        return True
    policy = container.get("restartPolicy") or pod_policy
    return bool(code) if policy == "OnFailure" else policy != NEVER


def _matches(codes: Object, code: int) -> bool:
    return (code in (codes.get("values") or ())) == (codes.get("operator") == "In")


def _restarts_all(spec: Object) -> bool:
    """Return True if a container may restart all others of its pod, whatever their policies."""
    containers = (container for field in CONTAINERS.values() for container in items(spec, field))
    rules = (rule for container in containers for rule in container.get("restartPolicyRules") or ())
    return any(rule.get("action") == "RestartAllContainers" for rule in rules)


def _claim_causes(status: Object, pod: Object) -> list[Cause]:
    names = {claim.get("name") or "" for claim in items(pod, "spec", "resourceClaims")}
    causes: Causes = []
    is_new = once()
    for index, claim in enumerate(items(status, "resourceClaimStatuses")):
        path, name = f"status.resourceClaimStatuses[{index}]", claim.get("name") or ""
        if name not in names:
            causes.append(invalid(f"{path}.name", name, NO_CLAIM))
        is_new(f"{path}.name", name, causes)
        if (chosen := claim.get("resourceClaimName")) is not None:
            _name(f"{path}.resourceClaimName", chosen, causes)
    return causes


PATH = "status.extendedResourceClaimStatus"
IN_SPEC = "must match the {} of an entry in spec.initContainers.{} or spec.containers.{}"
NO_CONTAINER = IN_SPEC.format("name", "name", "name")
NO_RESOURCE = IN_SPEC.format("extended resource name", "resources.requests", "resources.requests")
_claim_name = needed(subdomain)
MAPPED = ("containerName", "resourceName", "requestName")


def _extended_causes(status: Object, pod: Object) -> list[Cause]:
    """Check the claim of the extended resources that the containers request."""
    claim = status.get("extendedResourceClaimStatus")
    if claim is None:
        return []
    containers = {
        container.get("name"): container for field in CONTAINERS.values() for container in items(pod, "spec", field)
    }
    causes: Causes = []
    if not claim.get("requestMappings"):
        causes.append(required(f"{PATH}.requestMappings", "at least one request mapping is required"))
    seen = set()
    for index, mapping in enumerate(items(claim, "requestMappings")):
        where, names = f"{PATH}.requestMappings[{index}]", tuple(mapping.get(field) or "" for field in MAPPED)
        if names[0] not in containers:
            causes.append(invalid(f"{where}.containerName", names[0], NO_CONTAINER))
        elif names[1] not in (at(containers[names[0]], "resources", "requests") or {}):
            causes.append(invalid(f"{where}.resourceName", names[1], NO_RESOURCE))
        causes += [invalid(f"{PATH}.requestName", names[2], fault) for fault in label_faults(names[2])]
        if names in seen:
            causes += [duplicate(f"{where}.{field}", name) for field, name in zip(MAPPED, names, strict=True)]
        seen.add(names)
    _claim_name(f"{PATH}.resourceClaimName", claim.get("resourceClaimName"), causes)
    return causes
