"""`nodeplane conform --manifest`: the DaemonSet's pod is judged, restarted and killed as a command is."""

import asyncio
import json
import os
import subprocess
import sys
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from supervisor.conform.verdict import FAIL, PASS
from tests.support.containerd import BUSYBOX, Containerd, why_not
from tests.support.plane import BIN, REPO

SAMPLE = REPO / "tests" / "support" / "conform_plugin.py"
AGENT = REPO / "tests" / "support" / "planted_agent.py"
LIFE = "registers,allocate-one,pre-start,idle,kubelet-restarts,killed-in-allocate,plugin-killed,ends-at-sigterm"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts of pods need root")


def plugin(bug: str) -> list[dict[str, Any]]:
    """A DaemonSet of the sample, its bug in a ConfigMap, in a namespace that the manifest does not have."""
    chosen = {"configMapKeyRef": {"name": "settings", "key": "bug"}}
    container = {
        "name": "plugin",
        "image": "example.com/gpu-plugin:1",
        "command": [sys.executable, str(SAMPLE), "$(BUG)"],
        "env": [
            {"name": "NODEPLANE_KUBELET_DIR", "value": "/var/lib/kubelet"},
            {"name": "PYTHONPATH", "value": str(REPO)},
            {"name": "BUG", "valueFrom": chosen},
        ],
        "volumeMounts": [{"name": "kubelet", "mountPath": "/var/lib/kubelet"}],
    }
    kubelet = {"name": "kubelet", "hostPath": {"path": "/var/lib/kubelet", "type": "Directory"}}
    pod = {"nodeSelector": {"has/gpu": "true"}, "containers": [container], "volumes": [kubelet]}
    settings = {"metadata": {"name": "settings", "namespace": "gpu-system"}, "data": {"bug": bug}}
    return [daemon_set("gpu-plugin", "gpu-system", pod), {"apiVersion": "v1", "kind": "ConfigMap", **settings}]


def daemon_set(name: str, namespace: str, pod: dict[str, Any]) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod}
    metadata = {"name": name, "namespace": namespace}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec}


def driver() -> list[dict[str, Any]]:
    """A DaemonSet of the simulated driver with a service account, whose paths are those of a node."""
    group = "rbac.authorization.k8s.io"
    resources, everything = "resource.k8s.io", ["get", "list", "watch", "create", "update", "patch", "delete"]
    rules = [
        {"apiGroups": [resources], "resources": ["resourceclaims"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [resources], "resources": ["resourceslices"], "verbs": everything},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
    ]
    subject = {"kind": "ServiceAccount", "name": "driver", "namespace": "dra"}
    role = {"kind": "ClusterRole", "name": "driver", "apiGroup": group}
    folders = {
        "registry": "/var/lib/kubelet/plugins_registry",
        "plugins": "/var/lib/kubelet/plugins",
        "cdi": "/var/run/cdi",
    }
    flags = ("--driver=gpu.example.com", "--devices=2", "--node-name=$(NODE_NAME)")
    container = {
        "name": "driver",
        "image": "example.com/gpu-driver:1",
        "command": [str(BIN / "nodeplane"), "dra-driver", *flags],
        "args": ["--kubelet-dir=/var/lib/kubelet", "--cdi-dir=/var/run/cdi"],
        "env": [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in folders.items()],
    }
    volumes = [{"name": name, "hostPath": {"path": path}} for name, path in folders.items()]
    pod = {"serviceAccountName": "driver", "containers": [container], "volumes": volumes}
    return [
        {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": "driver"}, "rules": rules},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "driver"},
            "subjects": [subject],
            "roleRef": role,
        },
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "driver", "namespace": "dra"}},
        daemon_set("gpu-driver", "dra", pod),
    ]


def custom() -> list[dict[str, Any]]:
    """An object whose kind is defined beside it."""
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}
    gadget = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "one", "namespace": "gpu-system"}}
    return [gadget, {**definition, "metadata": {"name": "gadgets.example.com"}}]


def agent(bug: str, way: str) -> list[dict[str, Any]]:
    """A DaemonSet of the sample, which has the directory of the pod resources socket and no other."""
    directory = "/var/lib/kubelet/pod-resources"
    container = {
        "name": "agent",
        "image": "example.com/agent:1",
        "command": [sys.executable, str(AGENT), bug, way],
        "env": [
            {"name": "NODEPLANE_POD_RESOURCES", "value": f"{directory}/kubelet.sock"},
            {"name": "NODEPLANE_KUBELET_DIR", "value": directory},
            {"name": "PYTHONPATH", "value": str(REPO)},
        ],
        "volumeMounts": [{"name": "pod-resources", "mountPath": directory}],
    }
    volume = {"name": "pod-resources", "hostPath": {"path": directory}}
    return [daemon_set("agent", "monitoring", {"containers": [container], "volumes": [volume]})]


def conform(objects: list[dict[str, Any]], *words: str) -> dict[str, dict[str, Any]]:
    """Judge a manifest given by standard input; return the results by name."""
    text = "\n---\n".join(map(json.dumps, objects))
    command = [str(BIN / "nodeplane"), "conform", "-o", "json", "--timeout", "20", "--manifest", "-", *words]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout, done.stderr
    return {behaviour["name"]: behaviour for behaviour in json.loads(done.stdout)["behaviours"]}


def test_pod_of_a_daemon_set_is_judged_restarted_and_killed() -> None:
    found = conform([*plugin("starts_a_container_once"), *custom()], "--only", LIFE)
    verdicts = {name: each["verdict"] for name, each in found.items()}
    assert verdicts == {**dict.fromkeys(LIFE.split(","), PASS), "pre-start": FAIL}
    printed = {line for each in found.values() for line in each["output"]}
    assert "registered" in printed, "the log of its container is shown"


@pytest.mark.heavy
def test_correct_plugin_of_a_daemon_set_has_no_finding() -> None:
    objects = plugin("none")
    pod = objects[0]["spec"]["template"]["spec"]
    pod["volumes"].append({"name": "cdi", "hostPath": {"path": "/var/run/cdi"}})
    pod["containers"][0]["volumeMounts"].append({"name": "cdi", "mountPath": "/var/run/cdi"})
    pod["containers"][0]["env"].append({"name": "CDI_ROOT", "value": "/var/run/cdi"})
    assert [name for name, each in conform(objects).items() if each["verdict"] == FAIL] == []


@pytest.mark.heavy
@pytest.mark.skipif(bool(why_not()), reason=why_not())
async def test_runtime_of_ones_own_runs_the_pod() -> None:
    """Its image has no Python: that of the host is mounted."""
    objects = plugin("none")
    pod = objects[0]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    for number, path in enumerate(sorted({"/usr", "/lib", "/lib64", sys.prefix, sys.base_prefix, str(REPO)})):
        pod["volumes"].append({"name": f"host-{number}", "hostPath": {"path": path}})
        container["volumeMounts"].append({"name": f"host-{number}", "mountPath": path})
    pod["hostNetwork"] = True  # there is no network plugin
    container |= {"image": BUSYBOX, "imagePullPolicy": "IfNotPresent"}
    async with Containerd() as runtime:
        found = await asyncio.to_thread(conform, objects, "--runtime", f"unix://{runtime.socket}", "--only", LIFE)
    assert {name: each["verdict"] for name, each in found.items()} == dict.fromkeys(LIFE.split(","), PASS)


@pytest.mark.heavy
def test_driver_of_a_daemon_set_has_no_finding() -> None:
    found = conform(driver(), "--kind", "dra")
    assert {name: each["reason"] for name, each in found.items() if each["verdict"] == FAIL} == {}
    assert (found["driver-killed"]["verdict"], found["two-instances"]["verdict"]) == (PASS, PASS)


AGENTS = [
    ("none", "poll", (), []),
    ("adds_each_list", "watch", ("--only", "shows-pods,server-restarts,shows-after-restart"), ["shows-after-restart"]),
]


@pytest.mark.heavy
@pytest.mark.parametrize(("bug", "way", "only", "finds"), AGENTS)
def test_agent_of_a_daemon_set_is_judged_by_what_it_calls_and_shows(
    bug: str, way: str, only: tuple[str, ...], finds: list[str]
) -> None:
    with TemporaryDirectory(prefix="np", dir="/tmp") as kubelet:  # paths of sockets are short
        shows = ("--kubelet-dir", kubelet, "--shows", f"cat {kubelet}/pod-resources/shown")
        found = conform(agent(bug, way), "--kind", "agent", *shows, *only)
    assert {name for name, each in found.items() if each["verdict"] == FAIL} == set(finds)
    assert (found["shows-pods"]["verdict"], found["server-restarts"]["verdict"]) == (PASS, PASS)


@pytest.mark.heavy
def test_program_that_is_not_there_is_an_error_with_its_reason() -> None:
    objects = plugin("none")
    objects[0]["spec"]["template"]["spec"]["containers"][0]["command"] = ["/no/such/program"]
    found = conform(objects, "--only", "registers,version")
    assert "it ended with code 128" in found["registers"]["reason"]
    assert "/no/such/program" in found["registers"]["reason"]
