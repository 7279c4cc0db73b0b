"""Reduce objects of the API to what the fleet retains: it has ten thousand pods."""

from actors.fleet.simulated.pod import packed
from protocols.kinds import views
from protocols.kube.meta import Object, fields_of

POD_METADATA = ("name", "namespace", "uid", "resourceVersion")
NODE_METADATA = (*POD_METADATA, "labels")


def reduced_pod(pod: views.Pod) -> Object:
    """Reduce a pod to its identity, its node and itself, packed."""
    node = (pod.get("spec") or {}).get("nodeName") or ""
    return {"metadata": fields_of(pod.get("metadata") or {}, POD_METADATA), "node": node, "packed": packed(pod)}


def reduced_node(node: views.Node) -> Object:
    """Reduce a node to what the admission of pods reads."""
    return {
        "metadata": fields_of(node.get("metadata") or {}, NODE_METADATA),
        "spec": {"taints": (node.get("spec") or {}).get("taints") or []},
        "status": {"allocatable": (node.get("status") or {}).get("allocatable") or {}},
    }
