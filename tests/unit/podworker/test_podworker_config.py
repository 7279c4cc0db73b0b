from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import hypothesis.strategies as st
import pytest
from hypothesis import given

from actors.podworker.model.dependencies import NodeFields
from actors.podworker.model.errors import ContainerConfigInvalid
from actors.podworker.pods.containers.config import ConfigInputs, container_config
from actors.podworker.pods.containers.images import pull_policy
from actors.podworker.pods.containers.sandbox import sandbox_config
from actors.podworker.pods.containers.starter import Starter
from actors.podworker.pods.environment.variables import expand
from actors.podworker.pods.volumes import sub_path
from protocols.kinds import views
from protocols.kube.meta import Object
from protocols.lifecycle.pods.types import read_pod
from protocols.messages.devices import ContainerGrant, GrantedDevice, GrantedMount
from protocols.wire import cri_pb2
from tests.support.podworker_fakes import container, pod

NODE = NodeFields("n1", "10.0.0.5", ("10.1.0.1", "fd00::1"))


def inputs(
    raw_container: views.Container, grant: ContainerGrant | None = None, facts: Object | None = None, **spec: Any
) -> ConfigInputs:
    parsed = read_pod(pod(raw_container, **spec))
    return ConfigInputs(
        parsed,
        parsed.containers[0],
        2,
        NODE,
        Path("/root-dir"),
        "sha256:x",
        grant or ContainerGrant({}),
        **(facts or {}),
    )


def config(*args: Any, **spec: Any) -> cri_pb2.ContainerConfig:
    return container_config(inputs(*args, **spec))


def environment(made: cri_pb2.ContainerConfig) -> dict[str, str]:
    return {e.key: e.value.decode() for e in made.envs}


def test_runtime_limits_huge_pages_and_ends_all_processes_out_of_memory() -> None:
    """As kubelet: a size that the container does not limit is limited to nothing."""
    limited = container("a", resources={"limits": {"hugepages-2Mi": "4Mi", "memory": "1Gi"}})
    resources = config(limited, facts={"page_sizes": (65536, 2 << 20, 1 << 30), "oom_group": True}).linux.resources
    assert [(limit.page_size, limit.limit) for limit in resources.hugepage_limits] == [
        ("64KB", 0),
        ("2MB", 4 << 20),
        ("1GB", 0),
    ]
    assert resources.unified == {"memory.oom.group": "1"}
    assert not config(limited).linux.resources.hugepage_limits


def test_expansion() -> None:
    known = {"A": "1", "B": "$(A)"}
    for text, expected in (
        ("$(A)-$(A)", "1-1"),
        ("$$(A)", "$(A)"),
        ("$(NOPE)", "$(NOPE)"),
        ("$A $", "$A $"),
        ("$(A", "$(A"),
        ("$(B)", "$(A)"),
        ("$$$(A)", "$1"),
    ):
        assert expand(text, known) == expected, text


@given(st.text(alphabet="$()AB x", max_size=30))
def test_expansion_never_fails_and_keeps_text_without_dollars(text: str) -> None:
    expanded = expand(text, {"A": "1"})
    if "$" not in text:
        assert expanded == text


def test_environment_in_order_with_downward_fields_and_grants() -> None:
    env = [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$(A)2"},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "IPS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIPs"}}},
        {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
    ]
    made = config(
        container("a", env=env, command=["sh", "-c", "echo $(B) $$(B)"]),
        ContainerGrant({"GPUS": "0"}),
        metadata={"labels": {"app": "x"}},
    )
    ips = {"IP": "10.1.0.1", "IPS": "10.1.0.1,fd00::1"}
    assert environment(made) == {"A": "1", "B": "12", "POD": "p", **ips, "LABEL": "x", "GPUS": "0"}
    assert list(made.command) == ["sh", "-c", "echo 12 $(B)"]


def test_variable_of_the_spec_overrides_that_of_a_device_plugin() -> None:
    raw = container("a", env=[{"name": "VISIBLE", "value": "none"}], command=["echo", "$(VISIBLE) $(GPUS)"])
    found = config(raw, ContainerGrant({"VISIBLE": "0,1", "GPUS": "2"}))
    assert environment(found) == {"VISIBLE": "none", "GPUS": "2"}
    assert list(found.command) == ["echo", "none 2"]


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        (container("a", env=[{"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]), "not found"),
        (
            container("a", env=[{"name": "S", "valueFrom": {"configMapKeyRef": {"name": "s"}}}]),
            "configmap .* not found",
        ),
        (container("a", envFrom=[{"secretRef": {"name": "s"}}]), "secret .* not found"),
        (container("a", env=[{"name": "S", "valueFrom": {"fieldRef": {"fieldPath": "spec.nope"}}}]), "spec.nope"),
        (container("a", volumeMounts=[{"name": "absent", "mountPath": "/x"}]), "absent"),
    ],
)
def test_what_is_not_supported_is_said(raw: views.Container, word: str) -> None:
    with pytest.raises(ContainerConfigInvalid, match=word):
        config(raw)


def test_unsupported_volume_kind_is_named() -> None:
    raw = container("a", volumeMounts=[{"name": "v", "mountPath": "/x"}])
    with pytest.raises(ContainerConfigInvalid, match="persistentVolumeClaim"):
        config(raw, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])


def test_volumes_and_grants_become_mounts_and_devices() -> None:
    mounts = [{"name": "e", "mountPath": "e"}, {"name": "h", "mountPath": "/h", "readOnly": True}]
    volumes = [{"name": "e", "emptyDir": {}}, {"name": "h", "hostPath": {"path": "/host"}}]
    grant = ContainerGrant(
        mounts=(GrantedMount("/lib", "/opt/lib", True),),
        devices=(GrantedDevice("/dev/g0", "/dev/null"),),
        cdi_devices=("v/c=0",),
        annotations={"x": "y"},
    )
    made = config(container("a", volumeMounts=mounts), grant, volumes=volumes)
    assert [(m.container_path, m.host_path, m.readonly) for m in made.mounts] == [
        ("/lib", "/opt/lib", True),
        ("/e", "/root-dir/pods/uid-1/volumes/empty-dir/e", False),
        ("/h", "/host", True),
        ("/dev/termination-log", "/root-dir/pods/uid-1/containers/a/2.message", False),
    ]
    assert [(d.container_path, d.host_path, d.permissions) for d in made.devices] == [("/dev/g0", "/dev/null", "mrw")]
    assert made.CDI_devices[0].name == "v/c=0"
    assert made.annotations["x"] == "y"


def test_sub_path_is_bound_behind_the_mounts_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = container("a", volumeMounts=[{"name": "e", "mountPath": "/e", "subPath": "part"}])
    grant = ContainerGrant(mounts=(GrantedMount("/lib", "/opt/lib", True),))
    asked = inputs(raw, grant, volumes=[{"name": "e", "emptyDir": {}}])
    made = container_config(asked)
    monkeypatch.setattr(sub_path, "bind", lambda request: f"/bound/{request.part}")
    deps: Any = SimpleNamespace(node_info=SimpleNamespace(root=Path("/root-dir")))
    Starter(deps, Mock())._bind_sub_paths(asked, made)
    assert [(m.container_path, m.host_path) for m in made.mounts[:2]] == [("/lib", "/opt/lib"), ("/e", "/bound/part")]


def test_image_volume_is_a_read_only_mount_of_the_image() -> None:
    volumes = [{"name": "i", "image": {"reference": "box:1"}}]
    raw = container("a", volumeMounts=[{"name": "i", "mountPath": "/i", "subPath": "etc"}])
    (made,) = [m for m in config(raw, facts={"images": {"i": "sha256:7"}}, volumes=volumes).mounts if m.image.image]
    assert (made.container_path, made.host_path, made.readonly) == ("/i", "", True)
    assert (made.image.image, made.image_sub_path) == ("sha256:7", "etc")


@pytest.mark.parametrize(
    ("mount", "supported", "expected"),
    [
        ({"readOnly": True}, True, False),
        ({"readOnly": True, "recursiveReadOnly": "Disabled"}, True, False),
        ({"readOnly": True, "recursiveReadOnly": "IfPossible"}, True, True),
        ({"readOnly": True, "recursiveReadOnly": "IfPossible"}, False, False),
        ({"readOnly": True, "recursiveReadOnly": "Enabled", "mountPropagation": "None"}, True, True),
        ({"readOnly": True, "recursiveReadOnly": "Enabled"}, False, "not supported by the runtime"),
        ({"recursiveReadOnly": "IfPossible"}, True, "not read-only"),
        (
            {"readOnly": True, "recursiveReadOnly": "Enabled", "mountPropagation": "HostToContainer"},
            True,
            'not compatible with propagation "HostToContainer"',
        ),
    ],
)
def test_recursive_read_only_is_resolved_by_the_runtimes_feature(
    mount: Object, supported: bool, expected: bool | str
) -> None:
    raw = container("a", volumeMounts=[{"name": "e", "mountPath": "/e", **mount}])

    def made() -> bool:
        facts, volumes = {"recursive": supported}, [{"name": "e", "emptyDir": {}}]
        return config(raw, facts=facts, volumes=volumes).mounts[0].recursive_read_only

    if isinstance(expected, bool):
        assert made() is expected
    else:
        with pytest.raises(ContainerConfigInvalid, match=expected):
            made()


def test_identity_labels_annotations_limits_and_log() -> None:
    resources = {"limits": {"cpu": "500m", "memory": "64Mi"}, "requests": {"cpu": "250m"}}
    made = config(container("a", resources=resources, securityContext={"runAsUser": 0}))
    assert (made.metadata.name, made.metadata.attempt) == ("a", 2)
    assert made.labels["io.kubernetes.pod.uid"] == "uid-1"
    assert made.annotations["io.kubernetes.container.restartCount"] == "2"
    assert made.log_path == "a/2.log"
    limits = made.linux.resources
    assert (limits.cpu_quota, limits.cpu_period, limits.cpu_shares, limits.memory_limit_in_bytes) == (
        50_000,
        100_000,
        256,
        64 << 20,
    )
    assert made.linux.security_context.HasField("run_as_user")


def test_sandbox() -> None:
    made = sandbox_config(read_pod(pod(container("a", ports=[{"containerPort": 80, "hostPort": 8080}]))), 3, Path("/l"))
    assert made.log_directory == "/l/ns_p_uid-1"
    assert made.metadata.attempt == 3
    assert made.port_mappings[0].host_port == 8080


def test_pull_policy() -> None:
    for image, policy in (
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1", "IfNotPresent"),
        ("reg:5000/nginx", "Always"),
        ("a@sha256:0", "IfNotPresent"),
    ):
        assert pull_policy(read_pod(pod(container("a", image))).containers[0]) == policy
    assert pull_policy(read_pod(pod(container("a", imagePullPolicy="Never"))).containers[0]) == "Never"
