"""Charts and manifests of drivers are installed unmodified: DaemonSets, rights, policies, in-cluster access."""

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.charts import manifests
from tests.support.charts.image import chart_image, usable
from tests.support.plane import BIN, Plane, until

CHART = Path(__file__).parents[1] / "support/charts/dra-driver"
EXAMPLES = Path(__file__).parents[2] / "examples"
IMAGE, PLUGIN_IMAGE = "registry.example.com/dra/dra-example-driver:v0.1.0", "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"
DEMO_IMAGE = "ubuntu:22.04"
HELM = BIN / "helm"

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(not usable(), reason="imported images need root, and busybox"),
]


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """A plane that has the charts' image under all its names."""
    with Plane() as running:
        archive = chart_image(running.root / "chart.tar", IMAGE)
        running.nodeplane("image", "import", str(archive), "--name", IMAGE, "--name", PLUGIN_IMAGE)
        running.nodeplane("image", "alias", IMAGE, DEMO_IMAGE)
        archive.unlink()
        yield running


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The chart of a vendor's shape: rights and policy are those of the example, the rest is its own."""
    made = tmp_path_factory.mktemp("chart")
    shutil.copytree(EXAMPLES / "dra-driver-chart", made, dirs_exist_ok=True)
    shutil.copytree(CHART, made, dirs_exist_ok=True)
    return str(made)


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


def helm(plane: Plane, *arguments: str) -> str:
    environment = {**plane.environment, "HOME": str(plane.root)}
    done = subprocess.run([HELM, *arguments], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def values(plane: Plane) -> list[str]:
    kubelet = plane.root / "kubelet"
    chosen = {
        "registrarDirectory": kubelet / "plugins_registry",
        "pluginsDirectory": kubelet / "plugins",
        "cdiDirectory": plane.root / "cdi",
        "healthPort": free_port(),
        "metricsPort": free_port(),
        "updateStrategy.rollingUpdate.maxSurge": 0,
        "updateStrategy.rollingUpdate.maxUnavailable": 1,
        "quota.enabled": "true",
    }
    return [word for key, value in chosen.items() for word in ("--set", f"{key}={value}")]


def apply(plane: Plane, objects: list[dict[str, Any]]) -> None:
    """Definitions are served a moment after they are created."""
    plane.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))


def running(plane: Plane, name: str, namespace: str) -> bool:
    return bool((plane.get("pod", name, namespace).get("status") or {}).get("phase") == "Running")


def demo(name: str) -> list[dict[str, Any]]:
    """A namespace with a template of a claim, and two pods with a device each."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    spec = {"spec": {"devices": {"requests": [request]}}}
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "single-gpu", "namespace": name},
        "spec": spec,
    }
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
        template,
        *(demo_pod(f"pod{at}", name) for at in range(2)),
    ]


def demo_pod(name: str, namespace: str) -> dict[str, Any]:
    container = {
        "name": "ctr0",
        "image": DEMO_IMAGE,
        "command": ["bash", "-c"],
        "args": ["export; trap 'exit 0' TERM; sleep 9999 & wait"],
        "resources": {"claims": [{"name": "gpu"}]},
    }
    claims = [{"name": "gpu", "resourceClaimTemplateName": "single-gpu"}]
    metadata = {"name": name, "namespace": namespace, "labels": {"app": "pod"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], "resourceClaims": claims},
    }


@pytest.mark.skipif(not HELM.exists(), reason="helm is not installed (tests/setup.sh installs it)")
def test_dra_chart_installed_by_helm_gives_devices_to_its_demo_and_leaves_nothing(plane: Plane, chart: str) -> None:
    helm(plane, "install", "gpu", chart, "--namespace", "dra", "--create-namespace", *values(plane), "--wait")
    plane.kubectl("rollout", "status", "-n", "dra", "daemonset/gpu-dra-example-driver", "--timeout=60s")
    apply(plane, demo("demo"))
    until("demo pods run", lambda: running(plane, "pod0", "demo") and running(plane, "pod1", "demo"))
    given = {line for pod in ("pod0", "pod1") for line in gpu_lines(plane, pod)}
    assert len(given) == 2

    helm(
        plane,
        "upgrade",
        "gpu",
        chart,
        "--namespace",
        "dra",
        "--reuse-values",
        "--set",
        "podAnnotations.a=b",
        "--wait",
    )
    plane.kubectl("rollout", "status", "-n", "dra", "daemonset/gpu-dra-example-driver", "--timeout=60s")
    assert running(plane, "pod0", "demo")
    with pytest.raises(AssertionError, match="may not change slices of node"):
        plane.kubectl("delete", "resourceslices", "--all", *as_driver("elsewhere"))

    plane.kubectl("delete", "namespace", "demo")
    helm(plane, "uninstall", "gpu", "--namespace", "dra", "--wait")
    until("pods of the driver are gone", lambda: plane.kubectl("get", "pods", "-n", "dra", "-o", "name") == "")
    left = plane.kubectl("get", "daemonset,deviceclass,clusterrole,validatingadmissionpolicy", "-A", "-o", "name")
    assert "dra-example-driver" not in left


@pytest.mark.skipif(not HELM.exists(), reason="helm is not installed (tests/setup.sh installs it)")
def test_chart_of_the_how_to_runs_the_simulated_driver_with_the_token_of_its_pod(plane: Plane) -> None:
    kubelet, cdi = plane.root / "kubelet", plane.root / "cdi"
    chosen = (f"program={BIN / 'nodeplane'}", f"kubeletDir={kubelet}", f"cdiDir={cdi}")
    chart = [str(EXAMPLES / "dra-driver-chart"), *(word for each in chosen for word in ("--set", each))]
    helm(plane, "install", "gpu", *chart, "--namespace", "example", "--create-namespace", "--wait")
    plane.apply(EXAMPLES / "two-gpu-pods.yaml")
    plane.kubectl("wait", "--for=condition=Ready", "pod", "-l", "app=gpu-demo", "--timeout=60s")
    until("each has a device", lambda: plane.kubectl("logs", "-l", "app=gpu-demo").count("GPU_EXAMPLE_COM_GPU_") == 2)
    for step in ("restart", "undo"):
        plane.kubectl("rollout", step, "-n", "example", "daemonset/gpu-dra-driver")
        plane.kubectl("rollout", "status", "-n", "example", "daemonset/gpu-dra-driver", "--timeout=60s")
    plane.kubectl("delete", "-f", str(EXAMPLES / "two-gpu-pods.yaml"))
    helm(plane, "uninstall", "gpu", "--namespace", "example", "--wait")


def gpu_lines(plane: Plane, pod: str) -> list[str]:
    until("logs", lambda: "GPU_DEVICE" in plane.kubectl("logs", "-n", "demo", pod))
    return [line for line in plane.kubectl("logs", "-n", "demo", pod).splitlines() if "GPU_DEVICE" in line]


def as_driver(node: str) -> list[str]:
    return [
        "--as=system:serviceaccount:dra:gpu-dra-example-driver",
        f"--as-user-extra=authentication.kubernetes.io/node-name={node}",
    ]


def test_device_plugin_manifest_registers_and_allocates_its_gpu(plane: Plane) -> None:
    apply(plane, manifests.device_plugin(PLUGIN_IMAGE, str(plane.root / "kubelet")))
    until("gpu is allocatable", lambda: allocatable(plane) == "1")
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    shown = {
        "name": "c",
        "image": DEMO_IMAGE,
        "command": ["sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES"],
        "resources": limits,
    }
    plane.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "gpu", "namespace": "default"},
            "spec": {"restartPolicy": "Never", "containers": [shown]},
        }
    )
    until("the pod got its gpu", lambda: "tegra" in plane.kubectl("logs", "gpu", check=False))


def allocatable(plane: Plane) -> str:
    node = plane.list("node")[0]
    return str(node["status"]["allocatable"].get("nvidia.com/gpu"))


def test_feature_discovery_labels_the_node(plane: Plane) -> None:
    features = plane.root / "etc/features.d"
    apply(plane, manifests.feature_discovery(IMAGE, (free_port(), free_port()), str(features)))
    for workload in ("deployment/nfd-master", "daemonset/nfd-worker"):
        plane.kubectl("rollout", "status", "-n", "node-feature-discovery", workload, "--timeout=60s")
    label = "feature.node.kubernetes.io/kernel-version.major"
    until("node is labelled", lambda: label in plane.list("node")[0]["metadata"]["labels"])
    assert features.is_dir()  # an untyped hostPath that was missing
    plane.kubectl("delete", "namespace", "node-feature-discovery")


def test_topology_exporter_reports_devices_and_sets_its_readiness_gates(plane: Plane) -> None:
    apply(plane, manifests.topology_exporter(IMAGE, str(plane.root / "kubelet")))
    plane.kubectl("rollout", "status", "daemonset/rte", "--timeout=60s")
    found = json.loads(plane.kubectl("get", "noderesourcetopologies", "-o", "json"))["items"]
    assert [each["topologyPolicies"] for each in found] == [["None"]]
    resources = found[0]["zones"][0]["resources"]
    assert all(int(resource["available"]) <= int(resource["capacity"]) for resource in resources)
