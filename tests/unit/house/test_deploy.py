"""The manifests in deploy/kubernetes agree with the command they run, and with Kubernetes' own types."""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from supervisor.base.settings import pod_resources
from supervisor.cli.flags import Parser, plane_options
from supervisor.cli.operate.start import add_parser

DEPLOY = Path(__file__).parents[3] / "deploy"
ADOPT = DEPLOY / "kubernetes" / "adopt"
KUBECTL = str(Path(sys.executable).parent / "kubectl")
SOCKETS = {
    "containerd": ("/run/containerd", "unix:///host/runtime/containerd.sock"),
    "cri-o": ("/run/crio", "unix:///host/runtime/crio.sock"),
}
PLAIN = {"str": str, "int": int, "bool": bool, "float": float}
POD_MONITOR: dict[str, Any] = {
    "jobLabel": str,
    "selector": {"matchLabels": dict},
    "podMetricsEndpoints": [
        {"port": str, "path": str, "interval": str, "relabelings": [{"sourceLabels": list, "targetLabel": str}]}
    ],
}
"""The part of the operator's schema that is used; its definition is no part of Kubernetes."""


def test_image_is_pinned_and_runs_as_nobody_special() -> None:
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    [base] = [line for line in lines if line.startswith("ARG BASE=")]
    assert re.fullmatch(r"ARG BASE=[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}", base)
    assert [line for line in lines if line.startswith("FROM ")] == ["FROM ${BASE} AS build", "FROM ${BASE}"]
    last = lines[lines.index("FROM ${BASE}") :]
    assert [line for line in last if line.startswith("USER ")] == ["USER 65532:65532"]
    assert {"LABEL", "HEALTHCHECK", "ENTRYPOINT"} <= {line.partition(" ")[0] for line in last}
    assert not [line for line in last if line.startswith("RUN")], "nothing is installed in the image itself"


def test_image_context_has_what_is_copied_and_no_more() -> None:
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    copies = [line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--from=" not in line]
    ignored = (DEPLOY.parent / ".dockerignore").read_text().splitlines()
    assert {path for paths in copies for path in paths} == {line[1:] for line in ignored if line.startswith("!")}
    assert "*" in ignored


@cache
def rendered(folder: Path) -> list[dict[str, Any]]:
    done = subprocess.run([KUBECTL, "kustomize", str(folder)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def objects(runtime: str) -> dict[str, dict[str, Any]]:
    return {item["kind"]: item for item in rendered(ADOPT / "overlays" / runtime)}


@pytest.mark.parametrize("runtime", SOCKETS)
def test_daemonset_runs_a_command_that_exists_and_mounts_what_it_names(runtime: str) -> None:
    spec = objects(runtime)["DaemonSet"]["spec"]["template"]["spec"]
    [container] = spec["containers"]
    parser = Parser(prog="nodeplane")
    add_parser(parser.add_subparsers(parser_class=Parser))
    args = parser.parse_args(container["args"])
    options = plane_options(args, {})
    assert pod_resources(options).health_address == "0.0.0.0:9356"
    assert options.metrics_port == container["ports"][0]["containerPort"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["grpc"]["port"] == container["ports"][1]["containerPort"]
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    paths = (args.pod_resources, args.cri.removeprefix("unix://"), args.socket, f"{options.root}/x")
    for path in paths:
        assert any(path.startswith(f"{mount}/") for mount in mounts), path
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in spec["volumes"]}
    assert (args.cri, _host_path(spec, "runtime")) == SOCKETS[runtime][::-1]


@pytest.mark.parametrize("runtime", SOCKETS)
def test_daemonset_has_the_least_it_needs(runtime: str) -> None:
    found = objects(runtime)
    spec = found["DaemonSet"]["spec"]["template"]["spec"]
    [container] = spec["containers"]
    assert spec["automountServiceAccountToken"] is False
    assert not {"hostPID", "hostNetwork", "hostIPC"} & set(spec)
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert "privileged" not in container["securityContext"]
    writable = {mount["name"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert writable == {"state", "watch"}, "its own files, and the socket that it makes"
    policy = found["NetworkPolicy"]["spec"]
    labels = found["DaemonSet"]["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert "egress" not in policy
    assert "Egress" in policy["policyTypes"], "nothing goes out"
    [rule] = policy["ingress"]
    assert [port["port"] for port in rule["ports"]] == [container["ports"][0]["name"]]


@pytest.mark.parametrize("runtime", SOCKETS)
def test_manifests_fit_upstreams_types(runtime: str) -> None:
    for item in rendered(ADOPT / "overlays" / runtime):
        version = item["apiVersion"].rpartition("/")[2].capitalize()
        assert misfits(item, f"{version}{item['kind']}", item["kind"]) == []


def test_operators_component_selects_the_pods_and_names_the_job(tmp_path: Path) -> None:
    """As an overlay of a user adds it."""
    where = {"resources": ["overlays/containerd"], "components": ["components/prometheus-operator"]}
    mine = {kind: [os.path.relpath(ADOPT / path, tmp_path) for path in paths] for kind, paths in where.items()}
    head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump({**head, **mine}))
    found = {item["kind"]: item for item in rendered(tmp_path)}
    monitor, template = found["PodMonitor"]["spec"], found["DaemonSet"]["spec"]["template"]
    assert differing(monitor, POD_MONITOR) == []
    assert monitor["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert template["metadata"]["labels"][monitor["jobLabel"]] == "nodeplane", "the job that NodeplaneDown names"
    ports = [port["name"] for port in template["spec"]["containers"][0]["ports"]]
    assert monitor["podMetricsEndpoints"][0]["port"] in ports
    assert len(found["PrometheusRule"]["spec"]["groups"]) == 2


def _host_path(spec: dict[str, Any], name: str) -> str:
    return str(next(volume for volume in spec["volumes"] if volume["name"] == name)["hostPath"]["path"])


def misfits(value: Any, kind: str, path: str) -> list[str]:
    """Return the paths of fields that the Kubernetes client's models do not have, or have with another type."""
    inner = re.fullmatch(r"(list|dict)[\[(](?:str, )?(.*)[\])]", kind, re.IGNORECASE)
    kind_of: type[list[Any] | dict[Any, Any]] = list if inner and inner[1].lower() == "list" else dict
    if inner and isinstance(value, kind_of):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        return [fault for key, item in pairs for fault in misfits(item, inner[2], f"{path}[{key}]")]
    if kind in PLAIN:
        return [] if isinstance(value, PLAIN[kind]) else [f"{path} is no {kind}"]
    if kind == "object":
        return []
    from kubernetes.client import models  # slow to load, and every worker of the tests collects this file

    model = getattr(models, kind, None)
    if model is None or not isinstance(value, dict):
        return [f"{path} is no {kind}"]
    types = {json: model.openapi_types[name] for name, json in model.attribute_map.items()}
    unknown = [f"{path}.{key} is unknown" for key in value if key not in types]
    return unknown + [
        fault for key in value if key in types for fault in misfits(value[key], types[key], f"{path}.{key}")
    ]


def test_misfits_are_found() -> None:
    wrong = {"kind": "Pod", "spec": {"containers": [{"name": 1, "imagePullPolice": "x"}], "hostPID": True}}
    assert misfits(wrong, "V1Pod", "Pod") == [
        "Pod.spec.containers[0].imagePullPolice is unknown",
        "Pod.spec.containers[0].name is no str",
    ]


def differing(value: Any, shape: Any, path: str = "spec") -> list[str]:
    if isinstance(shape, type):
        return [] if isinstance(value, shape) else [f"{path} is no {shape.__name__}"]
    if isinstance(shape, list):
        return [fault for item in value for fault in differing(item, shape[0], f"{path}[]")]
    unknown = [f"{path}.{key} is unknown" for key in value if key not in shape]
    return unknown + [
        fault for key in value if key in shape for fault in differing(value[key], shape[key], f"{path}.{key}")
    ]
