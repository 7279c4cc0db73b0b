"""The informer and the dynamic client of the Python package kubernetes. Arguments: the kubeconfig; then a line on stdin
ends it. Each thing its informer tells is printed."""

import sys

from kubernetes import client, config, dynamic
from kubernetes.informer import SharedInformer

config.load_kube_config(sys.argv[1])
api = client.CoreV1Api()
informer = SharedInformer(api.list_namespaced_config_map, namespace="default", label_selector="app=informer")


def tell(word: str) -> None:
    informer.add_event_handler(word, lambda *objects: print(word, objects[-1].metadata.name, flush=True))


for word in ("ADDED", "MODIFIED", "DELETED"):
    tell(word)
informer.start()
found = dynamic.DynamicClient(api.api_client).resources.get(api_version="resource.k8s.io/v1", kind="ResourceSlice")
assert found.get().items == []
applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dynamic", "labels": {"app": "informer"}}}
kind = dynamic.DynamicClient(api.api_client).resources.get(api_version="v1", kind="ConfigMap")
kind.server_side_apply(body=applied, name="dynamic", namespace="default", field_manager="me")
sys.stdin.readline()
informer.stop()
print("done")
