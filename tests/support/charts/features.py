"""Programs of images that charts name: worker and master of feature discovery, and the exporter of topology."""

import os
import platform
import sys
import time
from urllib.error import HTTPError

import grpc

from protocols.wire import podresources_v1_pb2 as pb
from tests.support.charts.drivers import serve_pages, until_sigterm
from tests.support.charts.in_cluster import MERGE, Api
from tests.support.stubs import podresources_v1_pb2_grpc as rpc

NFD = "/apis/nfd.k8s-sigs.io/v1alpha1"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
PERIOD_S = 0.5
LABEL = "feature.node.kubernetes.io"


def flag(name: str) -> str:
    """Return the value of `-name=value` or `--name=value`."""
    given = (word.lstrip("-").partition("=") for word in sys.argv[1:])
    return next(value for key, _, value in given if key == name)


def worker() -> None:
    api = Api()
    pod = api.call("GET", f"/api/v1/namespaces/{api.namespace}/pods/{os.environ['POD_NAME']}")
    owners = [{**reference, "controller": False} for reference in pod["metadata"]["ownerReferences"]]
    for owner in owners:
        owner.pop("blockOwnerDeletion", None)
    owners.append({"apiVersion": "v1", "kind": "Pod", "name": os.environ["POD_NAME"], "uid": os.environ["POD_UID"]})
    node = os.environ["NODE_NAME"]
    feature = {
        "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
        "kind": "NodeFeature",
        "metadata": {
            "name": node, "labels": {"nfd.node.kubernetes.io/node-name": node}, "ownerReferences": owners,
        },
        "spec": {"labels": {f"{LABEL}/kernel-version.major": platform.release().partition(".")[0]}},
    }  # fmt: skip
    api.apply(f"{NFD}/namespaces/{api.namespace}/nodefeatures", feature)
    serve_pages(int(flag("port")), {"/healthz": "ok"})
    until_sigterm()


def master() -> None:
    api = Api()
    serve_pages(int(flag("port")), {"/healthz": "ok"})
    while True:
        for feature in api.call("GET", f"{NFD}/nodefeatures")["items"]:
            node = feature["metadata"]["labels"]["nfd.node.kubernetes.io/node-name"]
            api.call("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"labels": feature["spec"]["labels"]}}, MERGE)
        time.sleep(PERIOD_S)


def exporter() -> None:
    """Write what containers hold and what the node has, and say by readiness gates that it was done."""
    api, node = Api(), os.environ["NODE_NAME"]
    socket = flag("podresources-socket").removeprefix("unix://")
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        stub = rpc.PodResourcesListerStub(channel)
        while True:
            held = [device for pod in stub.List(pb.ListPodResourcesRequest()).pod_resources for device in _devices(pod)]
            have = stub.GetAllocatableResources(pb.AllocatableResourcesRequest())
            api.apply(TOPOLOGIES, _topology(node, have, held))
            _ready(api)
            time.sleep(PERIOD_S)


def _devices(pod: "pb.PodResources") -> list[str]:
    return [name for container in pod.containers for entry in container.devices for name in entry.device_ids]


def _topology(node: str, have: "pb.AllocatableResourcesResponse", held: list[str]) -> "dict[str, object]":
    names = sorted({entry.resource_name for entry in have.devices})
    resources = []
    for name in names:
        devices = [device for entry in have.devices if entry.resource_name == name for device in entry.device_ids]
        left = str(len([device for device in devices if device not in held]))
        resources.append(
            {"name": name, "capacity": str(len(devices)), "allocatable": str(len(devices)), "available": left}
        )
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": node},
        "topologyPolicies": ["None"],
        "zones": [{"name": "node-0", "type": "Node", "resources": resources}],
    }


def _ready(api: Api) -> None:
    path = f"/api/v1/namespaces/{api.namespace}/pods/{os.environ['REFERENCE_POD_NAME']}"
    pod = api.call("GET", path)
    wanted = {"PodresourcesFetched", "NodeTopologyUpdated"}
    known = [condition for condition in pod["status"].get("conditions", []) if condition["type"] not in wanted]
    if len(known) + len(wanted) == len(pod["status"].get("conditions", [])):
        return
    pod["status"]["conditions"] = [*known, *({"type": name, "status": "True"} for name in sorted(wanted))]
    try:
        api.call("PUT", f"{path}/status", pod)
    except HTTPError as error:
        if error.code != 409:  # the node wrote first
            raise
