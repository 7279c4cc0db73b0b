"""Defaults of pods."""

import functools
import re
from collections.abc import Iterator
from typing import Any

from protocols.kinds.check.disks import default_disks
from protocols.kinds.pods.whole import default_whole, has_whole
from protocols.kube.errors import QuantityInvalid
from protocols.kube.meta import Object
from protocols.kube.objects import at, is_mirror, items, text
from protocols.kube.quantity import Quantity, parse_quantity
from protocols.kube.times import now

GRACE_SECONDS = 30
QOS_RESOURCES = ("cpu", "memory")
SPEC: Object = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": GRACE_SECONDS,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}
PROBE: Object = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
CONTAINER: Object = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
FILES: dict[str, Object] = {
    "configMap": {"defaultMode": 0o644},
    "secret": {"defaultMode": 0o644},
    "projected": {"defaultMode": 0o644},
    "downwardAPI": {"defaultMode": 0o644},
}
TOKEN_SECONDS = 3600
LABEL_KEYS = (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
"""Fields of rules about pods that name labels of the pod itself, with the operators of their requirements."""


def apply_defaults(pod: Object) -> None:
    """Set spec defaults in place; validation reports fields of the wrong type."""
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return
    default_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    if not is_mirror(pod):
        _service_account(spec)
    for container in (*items(spec, "containers"), *items(spec, "initContainers")):
        if spec.get("hostNetwork"):
            _host_ports(container)
        default_requests(container)
    for container in items(spec, "ephemeralContainers"):
        default_words(container)
    default_whole(spec)


def default_spec(spec: Object) -> None:
    """Set the defaults that pods and the templates of pods share."""
    _fill(spec, SPEC)
    spec.setdefault("securityContext", {})
    for container in (*items(spec, "containers"), *items(spec, "initContainers")):
        _container(container)
    for volume in items(spec, "volumes"):
        _volume(volume)


def _fill(target: Object, defaults: Object) -> None:
    for field, value in defaults.items():
        target.setdefault(field, value)


def _service_account(spec: Object) -> None:
    """Set both names of the field; admission sets the default account."""
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def default_words(container: Object) -> None:
    """Set the defaults that apply to every kind of container."""
    _fill(container, CONTAINER)
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = _pull_policy(str(container.get("image") or ""))
    for variable in items(container, "env"):
        if "valueFrom" in variable:
            _field_version(variable["valueFrom"])


def _field_version(source: Any) -> None:
    if field := at(source, "fieldRef"):
        field.setdefault("apiVersion", "v1")


def _host_ports(container: Object) -> None:
    for port in items(container, "ports"):
        if not port.get("hostPort") and port.get("containerPort"):
            port["hostPort"] = port["containerPort"]


def _container(container: Object) -> None:
    default_words(container)
    for port in items(container, "ports"):
        port.setdefault("protocol", "TCP")
    for name in PROBES:
        if isinstance(probe := container.get(name), dict):
            _fill(probe, PROBE)
            _handler(probe)
    for hook in ("postStart", "preStop"):
        if handler := at(container, "lifecycle", hook):
            _handler(handler)
    _round_resources(container.setdefault("resources", {}))


def _handler(handler: Object) -> None:
    if isinstance(request := handler.get("httpGet"), dict):
        request["path"] = request.get("path") or "/"
        request.setdefault("scheme", "HTTP")
    if isinstance(call := handler.get("grpc"), dict):
        call.setdefault("service", "")


_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_LABEL = r"[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?"
_DOMAIN = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])"
_IMAGE = re.compile(
    rf"(?P<name>(?:{_DOMAIN}(?::\d+)?/)?{_PART}(?:/{_PART})*)(?::(?P<tag>\w[\w.-]{{0,127}}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)
_IDENTIFIER = re.compile(r"[a-f0-9]{64}")
LONGEST_NAME, LONGEST_IMAGE = 255, 1024


def _pull_policy(image: str) -> str:
    return _policy(image) if len(image) <= LONGEST_IMAGE else "IfNotPresent"


@functools.lru_cache(maxsize=1024)
def _policy(image: str) -> str:
    """Return Always for the tag `latest`, which a name without tag and digest has; not for invalid names."""
    match = _IMAGE.fullmatch(image)
    if match is None or len(match["name"]) > LONGEST_NAME or _IDENTIFIER.fullmatch(image):
        return "IfNotPresent"
    return "Always" if (match["tag"] or ("" if match["digest"] else "latest")) == "latest" else "IfNotPresent"


def default_requests(container: Object) -> None:
    """Round quantities up to thousandths, and default requests to limits."""
    resources = container.setdefault("resources", {})
    limits = at(resources, "limits")
    _round_resources(resources)
    if limits and isinstance(limits, dict) and isinstance(resources.get("requests", {}), dict):
        resources["requests"] = {**limits, **resources.get("requests", {})}


def _round_resources(resources: Any) -> None:
    for side in ("limits", "requests"):
        if isinstance(values := at(resources, side), dict):
            _round(values)


def _round(values: Object) -> None:
    for name, value in values.items():
        if isinstance(value, str) and value.endswith(("n", "u")):
            values[name] = _rounded(value)


def _rounded(value: str) -> str:
    try:
        return str(Quantity(parse_quantity(value).milli() * 10**6))
    except QuantityInvalid:
        return value


def _volume(volume: Object) -> None:
    if len(volume) < 2:
        volume["emptyDir"] = {}
        return
    default_disks(volume)
    for kind, source in volume.items():
        if kind in FILES and isinstance(source, dict):
            _fill(source, FILES[kind])
    for source in (volume.get("downwardAPI"), *(projection.get("downwardAPI") for projection in _projections(volume))):
        for file in items(source, "items"):
            _field_version(file)
    for projection in _projections(volume):
        if isinstance(token := projection.get("serviceAccountToken"), dict):
            token.setdefault("expirationSeconds", TOKEN_SECONDS)
    if isinstance(template := at(volume, "ephemeral", "volumeClaimTemplate"), dict):
        template.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    if isinstance(image := volume.get("image"), dict):
        image.setdefault("pullPolicy", _pull_policy(str(image.get("reference") or "")))


def _projections(volume: Object) -> Iterator[Object]:
    yield from items(volume, "projected", "sources")


def keep_priority(new: Object, old: Object) -> None:
    """Retain the priority and preemption policy that an update leaves out, as upstream's admission does."""
    spec, before = new.get("spec"), old.get("spec") or {}
    if isinstance(spec, dict) and spec:
        _fill(spec, {field: before[field] for field in ("priority", "preemptionPolicy") if field in before})


ALPHA_SOURCES = ("clusterTrustBundle", "podCertificate")
"""Projections whose feature gates are disabled by default; the node has no agent for them."""


def drop_alpha_sources(pod: Object) -> None:
    """Drop projected sources of alpha gates, which upstream has off."""
    for volume in items(pod, "spec", "volumes"):
        for projection in _projections(volume):
            for kind in ALPHA_SOURCES:
                projection.pop(kind, None)


def merge_label_keys(pod: Object) -> None:
    """Add requirements for the pod's own values of matchLabelKeys and mismatchLabelKeys to the selectors of its rules.

    Only a pod has these values, so templates are left as they are. A missing selector matches no pod and stays missing.
    """
    labels = at(pod, "metadata", "labels") or {}
    for rule in _rules_about_pods(pod):
        selector = rule.get("labelSelector")
        own = [
            {"key": key, "operator": operator, "values": [labels[key]]}
            for field, operator in LABEL_KEYS
            for key in rule.get(field) or ()
            if key in labels
        ]
        if own and isinstance(selector, dict):
            selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), *own]


def _rules_about_pods(pod: Object) -> Iterator[Object]:
    """Yield pod affinity and anti-affinity terms, and topology spread constraints."""
    yield from items(pod, "spec", "topologySpreadConstraints")
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity = at(pod, "spec", "affinity", kind)
        yield from items(affinity, "requiredDuringSchedulingIgnoredDuringExecution")
        for weighted in items(affinity, "preferredDuringSchedulingIgnoredDuringExecution"):
            if isinstance(term := weighted.get("podAffinityTerm"), dict):
                yield term


def qos_class(pod: Object) -> str:
    """Return Guaranteed, Burstable or BestEffort from cpu and memory of the pod or its containers; zero is none."""
    containers = [*items(pod, "spec", "containers"), *items(pod, "spec", "initContainers")]
    if has_whole(pod):
        containers = [pod["spec"]]
    wanted = [(at(c, "resources", "requests") or {}, at(c, "resources", "limits") or {}) for c in containers]
    if not any(_is_some(side.get(name)) for pair in wanted for side in pair for name in QOS_RESOURCES):
        return "BestEffort"
    fixed = all(
        _is_some(limits.get(name)) and str(requests.get(name)) == str(limits[name])
        for requests, limits in wanted
        for name in QOS_RESOURCES
    )
    return "Guaranteed" if fixed else "Burstable"


def _is_some(amount: Any) -> bool:
    """Return True unless a canonical quantity is missing or zero."""
    return amount is not None and str(amount) != "0"


def initial_status(pod: Object) -> Object:
    """Return the status of a new pod, whatever the author sent beside the QoS class."""
    status: Object = {"phase": "Pending", "qosClass": text(pod, "status", "qosClass") or qos_class(pod)}
    if at(pod, "spec", "schedulingGates"):
        status["conditions"] = [{**GATED, "lastTransitionTime": now()}]
    return status


GATED: Object = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


TOLERATION_SECONDS = 300
EXECUTE = (None, "", "NoExecute")
NODE_LOST = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def add_default_tolerations(pod: Object) -> None:
    """Tolerate a lost node for five minutes, unless the pod says otherwise: upstream's DefaultTolerationSeconds."""
    spec = pod.get("spec")
    given = spec.get("tolerations") or [] if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(given, list):
        return  # validation reports it
    keys = {
        toleration.get("key") or "" for toleration in items(spec, "tolerations") if toleration.get("effect") in EXECUTE
    }
    missing = [key for key in NODE_LOST if key not in keys and "" not in keys]
    if missing:
        spec["tolerations"] = [*given, *(_toleration(key) for key in missing)]


def _toleration(key: str) -> Object:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS}
