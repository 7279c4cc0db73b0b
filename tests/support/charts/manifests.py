"""Manifests by the shape of what vendors publish: a device plugin, feature discovery, an exporter of node topology."""

from typing import Any

Object = dict[str, Any]


def from_field(name: str, path: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def host_path(name: str, path: str, type: str = "") -> Object:
    return {"name": name, "hostPath": {"path": path, **({"type": type} if type else {})}}


def account(name: str, namespace: str) -> Object:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}


def rights(name: str, namespace: str, rules: list[Object]) -> list[Object]:
    """A service account with a cluster role of its own."""
    group = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        "roleRef": {"kind": "ClusterRole", "name": name, "apiGroup": group},
    }
    return [account(name, namespace), role, binding]


def rule(group: str, resources: list[str], *verbs: str) -> Object:
    return {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}


def workload(kind: str, name: str, namespace: str, pod: Object, **spec: Any) -> Object:
    labels = {"name": name}
    template = {"metadata": {"labels": labels}, "spec": pod}
    body = {"selector": {"matchLabels": labels}, "template": template, **spec}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": body}


def definition(group: str, version: str, kind: str, plural: str, schema: Object, scope: str = "Namespaced") -> Object:
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "names": names, "scope": scope, "versions": [served]},
    }


OPEN: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def device_plugin(image: str, kubelet: str) -> list[Object]:
    """No command: the image's entrypoint runs. The kubelet's directory is where the program expects it."""
    directory = "device-plugins"
    container = {
        "name": "plugin",
        "image": image,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": directory, "mountPath": f"/var/lib/kubelet/{directory}"}],
    }
    pod = {
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "priorityClassName": "system-node-critical",
        "containers": [container],
        "volumes": [host_path(directory, f"{kubelet}/{directory}", "Directory")],
    }
    return [workload("DaemonSet", "device-plugin", "kube-system", pod, updateStrategy={"type": "RollingUpdate"})]


def feature_discovery(image: str, ports: tuple[int, int], features: str) -> list[Object]:
    """A worker on each node writes what it found; the master labels nodes."""
    namespace, group = "node-feature-discovery", "nfd.k8s-sigs.io"
    spec = {"type": "object", "properties": {"labels": {"type": "object", "additionalProperties": {"type": "string"}}}}
    schema = {"type": "object", "properties": {"spec": spec}}
    probe = {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 1}
    secure = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": False,
    }

    def container(name: str, port: int) -> Object:
        return {
            "name": name,
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "securityContext": secure,
            "livenessProbe": probe,
            "readinessProbe": probe,
            "ports": [{"containerPort": port, "name": "http"}],
            "env": [
                from_field("NODE_NAME", "spec.nodeName"),
                from_field("POD_NAME", "metadata.name"),
                from_field("POD_UID", "metadata.uid"),
            ],
            "command": [f"nfd-{name}"],
            "args": [f"-port={port}"],
        }

    config = {"name": "conf", "mountPath": "/etc/kubernetes/node-feature-discovery", "readOnly": True}
    extra = {"name": "features-d", "mountPath": "/etc/kubernetes/node-feature-discovery/features.d/", "readOnly": True}
    conf = {"name": "conf", "configMap": {"name": "nfd-conf", "items": [{"key": "nfd.conf", "path": "nfd.conf"}]}}
    worker = {
        "serviceAccountName": "nfd-worker",
        "containers": [{**container("worker", ports[0]), "volumeMounts": [config, extra]}],
        "volumes": [conf, host_path("features-d", features)],
    }
    master = {
        "serviceAccountName": "nfd-master",
        "enableServiceLinks": False,
        "containers": [
            {
                **container("master", ports[1]),
                "startupProbe": {**probe, "failureThreshold": 30},
                "volumeMounts": [config],
            }
        ],
        "volumes": [conf],
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 1,
                        "preference": {
                            "matchExpressions": [
                                {"key": "node-role.kubernetes.io/control-plane", "operator": "In", "values": [""]}
                            ]
                        },
                    }
                ]
            }
        },
    }
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        definition(group, "v1alpha1", "NodeFeature", "nodefeatures", schema),
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "nfd-conf", "namespace": namespace},
            "data": {"nfd.conf": ""},
        },
        *rights(
            "nfd-master",
            namespace,
            [
                rule("", ["nodes", "nodes/status"], "get", "patch", "update", "list"),
                rule(group, ["nodefeatures"], "get", "list", "watch"),
            ],
        ),
        *rights(
            "nfd-worker",
            namespace,
            [rule(group, ["nodefeatures"], "create", "get", "update", "delete"), rule("", ["pods"], "get")],
        ),
        workload("Deployment", "nfd-master", namespace, master, replicas=1, revisionHistoryLimit=1),
        workload("DaemonSet", "nfd-worker", namespace, worker, revisionHistoryLimit=1),
    ]


def topology_exporter(image: str, kubelet: str) -> list[Object]:
    """A second container without work, and readiness gates that the program itself sets."""
    group = "topology.node.k8s.io"
    schema = {"type": "object", "properties": {"topologyPolicies": {"type": "array", "items": {"type": "string"}}}}
    schema["properties"] |= {"zones": {"type": "array", "items": OPEN}}  # type: ignore[operator]
    exporter = {
        "name": "exporter",
        "image": image,
        "command": ["/bin/resource-topology-exporter"],
        "args": ["--podresources-socket=unix:///host-var/lib/kubelet/pod-resources/kubelet.sock"],
        "env": [from_field("NODE_NAME", "spec.nodeName"), from_field("REFERENCE_POD_NAME", "metadata.name")],
        "volumeMounts": [{"name": "kubelet", "mountPath": "/host-var/lib/kubelet"}],
    }
    shared = {"name": "shared-pool", "image": image, "command": ["/bin/sh", "-c", "--"]}
    pod = {
        "readinessGates": [{"conditionType": "PodresourcesFetched"}, {"conditionType": "NodeTopologyUpdated"}],
        "serviceAccountName": "rte",
        "containers": [exporter, {**shared, "args": ["while true; do sleep 30; done"]}],
        "volumes": [host_path("kubelet", kubelet)],
    }
    kind = definition(group, "v1alpha2", "NodeResourceTopology", "noderesourcetopologies", schema, "Cluster")
    kind["metadata"]["annotations"] = {
        "api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/1870"
    }
    return [
        kind,
        *rights(
            "rte",
            "default",
            [
                rule(group, ["noderesourcetopologies"], "create", "update", "patch", "get", "list"),
                rule("", ["pods"], "get"),
                rule("", ["pods/status"], "update"),
            ],
        ),
        workload("DaemonSet", "rte", "default", pod),
    ]
