"""Defaults of pods."""

from actors.apiserver.api.objects import at, is_mirror, items, text
from actors.apiserver.resources.pods.whole import default_whole, has_whole
from protocols.kube.meta import Object

GRACE_SECONDS = 30
QOS_RESOURCES = ("cpu", "memory")
PROBE_DEFAULTS = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def apply_defaults(pod: Object) -> None:
    """Set spec defaults in place; validation reports fields of the wrong type."""
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", GRACE_SECONDS)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("securityContext", {})
    if not is_mirror(pod):
        _service_account(spec)
    for container in (*items(spec, "containers"), *items(spec, "initContainers")):
        _container(container)
    default_whole(spec)
    for volume in items(spec, "volumes"):
        _volume(volume)


def _service_account(spec: Object) -> None:
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = account


def default_words(container: Object) -> None:
    """Set the defaults that apply to every kind of container."""
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = _pull_policy(container.get("image"))


def _container(container: Object) -> None:
    default_words(container)
    for port in items(container, "ports"):
        port.setdefault("protocol", "TCP")
    for name in PROBES:
        probe = container.get(name)
        if isinstance(probe, dict):
            for key, value in PROBE_DEFAULTS.items():
                probe.setdefault(key, value)
    default_requests(container)


def _pull_policy(image: object) -> str:
    name = str(image or "")
    if "@" in name:
        return "IfNotPresent"
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def default_requests(container: Object) -> None:
    """Default requests to limits."""
    resources = container.setdefault("resources", {})
    limits = at(resources, "limits")
    if isinstance(limits, dict) and isinstance(resources.get("requests", {}), dict):
        resources["requests"] = {**limits, **resources.get("requests", {})}


def _volume(volume: Object) -> None:
    for kind in ("configMap", "secret", "projected", "downwardAPI"):
        source = volume.get(kind)
        if isinstance(source, dict):
            source.setdefault("defaultMode", 0o644)
    if isinstance(volume.get("hostPath"), dict):
        volume["hostPath"].setdefault("type", "")


def qos_class(pod: Object) -> str:
    """Return Guaranteed, Burstable or BestEffort from cpu and memory of the pod or its containers."""
    containers = [*items(pod, "spec", "containers"), *items(pod, "spec", "initContainers")]
    if has_whole(pod):
        containers = [pod["spec"]]
    wanted = [(at(c, "resources", "requests") or {}, at(c, "resources", "limits") or {}) for c in containers]
    if not any(name in side for pair in wanted for side in pair for name in QOS_RESOURCES):
        return "BestEffort"
    fixed = all(
        name in limits and str(requests.get(name)) == str(limits[name])
        for requests, limits in wanted
        for name in QOS_RESOURCES
    )
    return "Guaranteed" if fixed else "Burstable"


def initial_status(pod: Object) -> Object:
    return {"phase": "Pending", "qosClass": text(pod, "status", "qosClass") or qos_class(pod)}


TOLERATION_SECONDS = 300
EXECUTE = (None, "", "NoExecute")
NODE_LOST = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def add_default_tolerations(pod: Object) -> None:
    """Tolerate a lost node for five minutes, unless the pod says otherwise: upstream's DefaultTolerationSeconds."""
    spec = pod.get("spec")
    given = spec.get("tolerations") or [] if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(given, list):
        return  # validation reports it
    keys = {each.get("key") or "" for each in items(spec, "tolerations") if each.get("effect") in EXECUTE}
    missing = [key for key in NODE_LOST if key not in keys and "" not in keys]
    if missing:
        spec["tolerations"] = [*given, *(_toleration(key) for key in missing)]


def _toleration(key: str) -> Object:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS}
