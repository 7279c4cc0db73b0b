"""EndpointSlices of a service, pure: what its pods make of it.

Source: staging/src/k8s.io/endpointslice of Kubernetes 1.36. Names follow from the content, where upstream generates
them, so that a pass can be repeated and two controllers agree.
"""

import hashlib
import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from protocols.kinds.table import ENDPOINTSLICES, SERVICES
from protocols.kube.meta import (
    SERVICE_NAME_LABEL,
    SLICE_MANAGER,
    SLICE_MANAGER_LABEL,
    Object,
    condition_true,
    labels_of,
    name_of,
    namespace_of,
    terminating,
    uid_of,
)
from protocols.kube.pods import is_finished

HEADLESS_LABEL = "service.kubernetes.io/headless"
MAX_ENDPOINTS = 100
"""Endpoints of one slice."""
MAX_NAME = 240
FAMILIES = {4: "IPv4", 6: "IPv6"}


def selector_of(service: Object) -> Mapping[str, str] | None:
    """Return the labels that its pods have; None for a service whose endpoints are somebody else's."""
    spec = service.get("spec") or {}
    return None if spec.get("type") == "ExternalName" else spec.get("selector") or None


def selects(service: Object, pod: Object) -> bool:
    """Return True if the service leads to the pod; one without a selector has endpoints of others."""
    wanted = selector_of(service)
    return wanted is not None and wanted.items() <= labels_of(pod).items()


def desired_slices(service: Object, pods: Iterable[Object]) -> list[Object]:
    """Return the slices of a service that selects pods, one without endpoints for a family that has none."""
    slices: list[Object] = []
    if selector_of(service) is None:
        return slices
    members = sorted((pod for pod in pods if selects(service, pod) and _counts(pod)), key=name_of)
    for family in (service.get("spec") or {}).get("ipFamilies") or ["IPv4"]:
        by_ports: dict[bytes, list[Object]] = {}
        for pod in members:
            if address := _address(pod, family):
                ports = msgspec.json.encode(_ports(service, pod))
                by_ports.setdefault(ports, []).append(_endpoint(service, pod, address))
        for ports, endpoints in sorted(by_ports.items()) or [(b"[]", [])]:
            chunks = range(0, max(1, len(endpoints)), MAX_ENDPOINTS)
            slices += [_slice(service, family, ports, at, endpoints[at : at + MAX_ENDPOINTS]) for at in chunks]
    return slices


def differs(known: Object, wanted: Object) -> bool:
    """Return True if a slice must be written; the ports and the family are in its name."""
    return (known.get("endpoints") or []) != wanted["endpoints"] or labels_of(known) != labels_of(wanted)


def _counts(pod: Object) -> bool:
    return not is_finished(pod)


def _address(pod: Object, family: str) -> str:
    status = pod.get("status") or {}
    known = [str(pod_ip.get("ip") or "") for pod_ip in status.get("podIPs") or ()] or [str(status.get("podIP") or "")]
    return next((ip for ip in known if _family(ip) == family), "")


def _family(ip: str) -> str:
    try:
        return FAMILIES[ipaddress.ip_address(ip).version]
    except ValueError:
        return ""


def _ports(service: Object, pod: Object) -> list[dict[str, Any]]:
    """Return the ports as this pod has them; a named target that it lacks is left out."""
    ports = []
    for port in (service.get("spec") or {}).get("ports") or ():
        target, protocol = port.get("targetPort") or port.get("port"), port.get("protocol") or "TCP"
        number = _named(pod, target, protocol) if isinstance(target, str) else target
        if number:
            app = {"appProtocol": port["appProtocol"]} if port.get("appProtocol") else {}
            ports.append({"name": port.get("name") or "", "port": number, "protocol": protocol, **app})
    return ports


def _named(pod: Object, name: str, protocol: str) -> int | None:
    for container in (pod.get("spec") or {}).get("containers") or ():
        for port in container.get("ports") or ():
            if port.get("name") == name and (port.get("protocol") or "TCP") == protocol:
                return int(port["containerPort"])
    return None


def _endpoint(service: Object, pod: Object, address: str) -> Object:
    spec, leaving = pod.get("spec") or {}, terminating(pod)
    serving = condition_true(pod, "Ready")
    ready = bool((service.get("spec") or {}).get("publishNotReadyAddresses")) or (serving and not leaving)
    named = spec.get("hostname") and spec.get("subdomain") == name_of(service)
    return {
        "addresses": [address],
        "conditions": {"ready": ready, "serving": serving, "terminating": leaving},
        **({"hostname": spec["hostname"]} if named else {}),
        **({"nodeName": spec["nodeName"]} if spec.get("nodeName") else {}),
        "targetRef": {"kind": "Pod", "name": name_of(pod), "namespace": namespace_of(pod), "uid": uid_of(pod)},
    }


def _slice(service: Object, family: str, ports: bytes, at: int, endpoints: list[Object]) -> Object:
    digest = hashlib.sha256(f"{uid_of(service)} {family} {at} ".encode() + ports).hexdigest()[:10]
    owner = {**SERVICES.type_meta, "name": name_of(service), "uid": uid_of(service)}
    headless = (service.get("spec") or {}).get("clusterIP") == "None"
    labels = {
        **{name: value for name, value in labels_of(service).items() if name != HEADLESS_LABEL},
        **({HEADLESS_LABEL: ""} if headless else {}),
        SERVICE_NAME_LABEL: name_of(service),
        SLICE_MANAGER_LABEL: SLICE_MANAGER,
    }
    return {
        **ENDPOINTSLICES.type_meta,
        "metadata": {
            "name": f"{name_of(service)[:MAX_NAME]}-{digest}",
            "namespace": namespace_of(service),
            "labels": labels,
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "addressType": family,
        "endpoints": endpoints,
        "ports": msgspec.json.decode(ports),
    }
