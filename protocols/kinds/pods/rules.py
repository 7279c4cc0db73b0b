"""Validate pods. Messages equal upstream's."""

from protocols.kinds.check.causes import Cause, duplicate, forbidden, invalid, required, unsupported
from protocols.kinds.check.selectors import toleration
from protocols.kinds.check.table import Causes, Ordered, Struct, between, each, one_of, texts, together
from protocols.kinds.check.values import MAX_INT32, ip, label, labels, longest, node_name, subdomain
from protocols.kinds.pods.spec.containers import Owner, container_words, port_conflict_causes
from protocols.kinds.pods.spec.handlers import handler_causes, init_handler_causes
from protocols.kinds.pods.spec.resources import resource_causes
from protocols.kinds.pods.spec.scheduling import affinity, gates, readiness_gates, spread
from protocols.kinds.pods.spec.security import POD_SECURITY, host_sysctl_causes
from protocols.kinds.pods.spec.systems import system_causes
from protocols.kinds.pods.spec.volumes import volume_causes
from protocols.kinds.pods.whole import whole_causes
from protocols.kube.meta import Object
from protocols.kube.names import subdomain_faults
from protocols.kube.objects import items, text

MOST_SERVERS, MOST_SEARCHES, LONGEST_SEARCHES = 3, 32, 2048
NO_ACCOUNT = "must not be specified when serviceAccountName is not set"
OS_NAMES = ("linux", "windows")


def _dns(path: str, value: Object, causes: Causes) -> None:
    servers, searches = value.get("nameservers") or (), value.get("searches") or ()
    if len(servers) > MOST_SERVERS:
        causes.append(invalid(f"{path}.nameservers", servers, f"must not have more than {MOST_SERVERS} nameservers"))
    for index, server in enumerate(servers):
        ip(f"{path}.nameservers[{index}]", server, causes)
    if len(searches) > MOST_SEARCHES:
        causes.append(invalid(f"{path}.searches", searches, f"must not have more than {MOST_SEARCHES} search paths"))
    if len(" ".join(searches)) > LONGEST_SEARCHES:
        text = f"must not have more than {LONGEST_SEARCHES} characters (including spaces) in the search list"
        causes.append(invalid(f"{path}.searches", searches, text))
    for index, search in enumerate(searches):
        name = search.removesuffix(".").replace("_", "a")
        if search != "." and (faults := subdomain_faults(name)):
            causes.extend(invalid(f"{path}.searches[{index}]", search, fault) for fault in faults)
    for index, option in enumerate(value.get("options") or ()):
        if not option.get("name"):
            causes.append(required(f"{path}.options[{index}]", "must not be empty"))


def _alias(path: str, value: Object, causes: Causes) -> None:
    ip(f"{path}.ip", value.get("ip") or "", causes)
    for index, name in enumerate(value.get("hostnames") or ()):
        faults = subdomain_faults(name)
        causes.extend(invalid(f"{path}.hostnames[{index}]", name, fault) for fault in faults)


def _os(path: str, value: Object, causes: Causes) -> None:
    name = value.get("name") or ""
    if not name:
        causes.append(required(f"{path}.name"))
    elif name not in OS_NAMES:
        causes.append(unsupported(path, name, OS_NAMES))


def _preemption(path: str, value: str, causes: Causes) -> None:
    if not value:
        causes.append(required(path))
    elif value not in ("PreemptLowerPriority", "Never"):
        causes.append(unsupported(path, value, ("PreemptLowerPriority", "Never")))


def _shared(path: str, spec: Object, causes: Causes) -> None:
    """Check fields that depend on each other."""
    if spec.get("dnsPolicy") == "None":
        if (config := spec.get("dnsConfig")) is None:
            causes.append(required(f"{path}.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None"))
        elif not config.get("nameservers"):
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            causes.append(required(f"{path}.dnsConfig.nameservers", text))
    if spec.get("hostPID") and spec.get("shareProcessNamespace"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        causes.append(invalid(f"{path}.securityContext.shareProcessNamespace", True, text))
    if "hostnameOverride" in spec:
        for field in filter(spec.get, ("setHostnameAsFQDN", "hostNetwork")):
            causes.append(forbidden(f"{path}.hostnameOverride", f"may not be specified when {field} is true"))
    causes += system_causes(path, spec)
    if spec.get("hostIPC") or spec.get("hostNetwork"):
        causes += host_sysctl_causes(f"{path}.securityContext.sysctls", spec)


SPEC = Struct(
    also=_shared,
    restartPolicy=one_of("Always", "OnFailure", "Never"),
    dnsPolicy=one_of("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
    activeDeadlineSeconds=between(1, MAX_INT32),
    nodeSelector=labels,
    nodeName=subdomain,
    serviceAccountName=subdomain,
    priorityClassName=subdomain,
    runtimeClassName=subdomain,
    hostname=label,
    hostnameOverride=together(longest(64), node_name),
    subdomain=label,
    preemptionPolicy=_preemption,
    os=_os,
    hostAliases=each(_alias),
    dnsConfig=_dns,
    securityContext=POD_SECURITY,
    tolerations=each(toleration),
    affinity=affinity,
    topologySpreadConstraints=spread,
    schedulingGates=gates,
    readinessGates=readiness_gates,
)


def pod_causes(pod: Object) -> list[Cause]:
    """Check a pod's spec; metadata of pods and templates is checked elsewhere."""
    spec = pod.get("spec")
    if not spec:
        return [required("spec.containers")]
    causes: Causes = []
    SPEC("spec", spec, causes)
    if not spec.get("restartPolicy"):
        causes.append(required("spec.restartPolicy"))
    volumes: dict[str, Object] = {}
    if given := spec.get("volumes"):
        faults, volumes = volume_causes("spec.volumes", given, pod["metadata"].get("name") or "")
        causes += faults
    users = spec.get("hostUsers") is not False
    owner = Owner(volumes, spec.get("restartPolicy") or "", bool(spec.get("hostNetwork")), users)
    causes += _all_containers(spec, owner)
    if overhead := spec.get("overhead"):
        causes += resource_causes("spec.overhead", {"resources": {"limits": overhead}})
    if "resources" in spec:
        causes += whole_causes(spec)
    return causes


image = texts(lambda name: ["must not have leading or trailing whitespace"] if name != name.strip() else [])
"""The check of an image in a pod; templates may have any."""
_images = each(Ordered(image=image))
_reference = Struct("reference")


def _volume(path: str, volume: Object, causes: Causes) -> None:
    if {"image"} == set(volume) - {"name"}:
        _reference(f"{path}.image", volume["image"], causes)


IMAGES = Ordered(spec=Ordered(containers=_images, initContainers=_images, volumes=each(_volume)))


def token_causes(pod: Object) -> list[Cause]:
    """Forbid tokens in the volumes of a pod without an account; templates get theirs with their pods."""
    if text(pod, "spec", "serviceAccountName"):
        return []
    return [
        forbidden(f"spec.volumes[{index}].projected.sources[{number}].serviceAccountToken", NO_ACCOUNT)
        for index, volume in enumerate(items(pod, "spec", "volumes"))
        for number, source in enumerate(items(volume, "projected", "sources"))
        if source.get("serviceAccountToken") is not None
    ]


def _all_containers(spec: Object, owner: Owner) -> list[Cause]:
    causes: Causes = []
    containers, first = spec.get("containers") or [], spec.get("initContainers") or []
    if not containers:
        causes.append(required("spec.containers"))
    seen: set[str] = set()
    grace = spec.get("terminationGracePeriodSeconds")
    for index, container in enumerate(containers):
        path = f"spec.containers[{index}]"
        causes += _named(path, container, seen) + container_words(path, container, owner)
        causes += handler_causes(path, container, grace)
        causes += resource_causes(f"{path}.resources", container)
    for index, container in enumerate(first):
        path = f"spec.initContainers[{index}]"
        causes += _named(path, container, seen) + container_words(path, container, owner)
        sidecar = container.get("restartPolicy") == "Always"
        causes += handler_causes(path, container, grace) if sidecar else _init_causes(path, container)
        causes += resource_causes(f"{path}.resources", container)
        causes += port_conflict_causes(path.rpartition("[")[0], [container], False)
    if any("ports" in container for container in containers):
        causes += port_conflict_causes("spec.containers", containers, owner.host_network)
    return causes


def _init_causes(path: str, container: Object) -> list[Cause]:
    """Check what an init container that is no sidecar cannot have: handlers, and a restart to be resized."""
    text = "must not be set to 'RestartContainer' for non-sidecar initContainers"
    return init_handler_causes(path, container) + [
        invalid(f"{path}.resizePolicy[{index}].restartPolicy", "RestartContainer", text)
        for index, policy in enumerate(items(container, "resizePolicy"))
        if policy.get("restartPolicy") == "RestartContainer"
    ]


def _named(path: str, container: Object, seen: set[str]) -> list[Cause]:
    name = container.get("name") or ""
    causes = [duplicate(f"{path}.name", name)] if name in seen else []
    if name:
        seen.add(name)
    return causes
