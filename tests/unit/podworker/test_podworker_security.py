import os
import re
from pathlib import Path
from typing import Any

import pytest

from actors.podworker.model.dependencies import ImageFound, NodeFields
from actors.podworker.model.errors import ContainerConfigInvalid
from actors.podworker.pods.containers.config import ConfigInputs, container_config
from actors.podworker.pods.containers.images import check_user
from actors.podworker.pods.containers.sandbox import sandbox_config
from actors.podworker.pods.containers.security import MASKED, READ_ONLY, ImageUser, sysctls, unenforced
from actors.podworker.pods.volumes.paths import VolumePaths
from actors.podworker.pods.volumes.volumes import Volumes
from protocols.kinds import views
from protocols.kinds.pods.defaults import apply_defaults, qos_class
from protocols.kinds.pods.rules import pod_causes
from protocols.kube.meta import Object
from protocols.lifecycle.pods import resources as limits
from protocols.lifecycle.pods.admission import admit_request
from protocols.lifecycle.pods.types import read_pod
from protocols.scheduling.requests import amounts, pod_requests
from protocols.wire import cri_pb2 as pb
from tests.support.podworker_fakes import FakeDependencies, container, pod

PROFILE = pb.SecurityProfile


def config(raw: views.Container, user: ImageUser | None = None, **spec: Any) -> pb.ContainerConfig:
    parsed = read_pod(pod(raw, **spec))
    return container_config(
        ConfigInputs(parsed, parsed.containers[0], 0, NodeFields("n1"), Path("/root-dir"), user=user)
    )


def context(
    own: Object | None = None, user: ImageUser | None = None, **of_pod: Any
) -> pb.LinuxContainerSecurityContext:
    raw = container("a", securityContext=own) if own is not None else container("a")
    return config(raw, user, securityContext=of_pod).linux.security_context


@pytest.mark.parametrize(
    ("own", "image", "fault"),
    [
        ({"runAsUser": 0}, ImageFound("i", uid=7), "container's runAsUser breaks non-root policy"),
        ({}, ImageFound("i"), "container has runAsNonRoot and image will run as root"),
        ({}, ImageFound("i", username="app"), "image has non-numeric user (app), cannot verify user is non-root"),
        ({"runAsUser": 7}, ImageFound("i"), ""),
        ({"runAsNonRoot": False}, ImageFound("i"), ""),
    ],
)
def test_root_is_rejected_in_upstreams_words(own: Object, image: ImageFound, fault: str) -> None:
    raw = container("a", securityContext=own)
    spec = read_pod(pod(raw, securityContext={"runAsNonRoot": True}))
    if not fault:
        return check_user(spec, spec.containers[0], image)
    with pytest.raises(ContainerConfigInvalid, match=re.escape(f'{fault} (pod: "p_ns(uid-1)", container: a)')):
        check_user(spec, spec.containers[0], image)
    return None


def test_nothing_said_is_kubelets_default() -> None:
    made = context()
    assert made.seccomp.profile_type == PROFILE.Unconfined
    assert not made.HasField("apparmor")
    assert not made.HasField("run_as_user")
    assert (tuple(made.masked_paths), tuple(made.readonly_paths)) == (MASKED, READ_ONLY)
    assert (made.privileged, made.readonly_rootfs, made.no_new_privs) == (False, False, False)


def test_a_container_goes_before_its_pod() -> None:
    of_pod: Object = {
        "runAsUser": 1000,
        "runAsGroup": 3000,
        "fsGroup": 2000,
        "supplementalGroups": [4, 5],
        "supplementalGroupsPolicy": "Strict",
        "seccompProfile": {"type": "RuntimeDefault"},
        "appArmorProfile": {"type": "Localhost", "localhostProfile": "mine"},
        "seLinuxOptions": {"level": "s0:c1"},
    }
    made = context(**of_pod)
    assert (made.run_as_user.value, made.run_as_group.value) == (1000, 3000)
    assert list(made.supplemental_groups) == [2000, 4, 5]
    assert made.supplemental_groups_policy == pb.Strict
    assert made.seccomp.profile_type == PROFILE.RuntimeDefault
    assert (made.apparmor.profile_type, made.apparmor.localhost_ref) == (PROFILE.Localhost, "mine")
    assert made.selinux_options.level == "s0:c1"
    own = {
        "runAsUser": 0,
        "seccompProfile": {"type": "Localhost", "localhostProfile": "profiles/a.json"},
        "appArmorProfile": {"type": "Unconfined"},
        "procMount": "Unmasked",
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "privileged": True,
        "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
    }
    made = context(own, **of_pod)
    assert (made.run_as_user.value, made.run_as_group.value) == (0, 3000)
    assert made.seccomp.localhost_ref == "/root-dir/kubelet/seccomp/profiles/a.json"
    assert made.apparmor.profile_type == PROFILE.Unconfined
    assert not made.masked_paths
    assert (made.privileged, made.readonly_rootfs, made.no_new_privs) == (True, True, True)
    assert (list(made.capabilities.add_capabilities), list(made.capabilities.drop_capabilities)) == (
        ["NET_ADMIN"],
        ["ALL"],
    )


def test_the_images_user_is_passed_to_the_runtime() -> None:
    assert context(user=ImageUser(65532)).run_as_user.value == 65532
    assert context(user=ImageUser()).HasField("run_as_user")
    named = context(user=ImageUser(username="nobody"))
    assert (named.run_as_username, named.HasField("run_as_user")) == ("nobody", False)
    assert context({"runAsUser": 7}, ImageUser(65532)).run_as_user.value == 7


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, (pb.POD, pb.CONTAINER, pb.POD)),
        ({"shareProcessNamespace": True}, (pb.POD, pb.POD, pb.POD)),
        ({"hostPID": True, "hostIPC": True, "hostNetwork": True}, (pb.NODE, pb.NODE, pb.NODE)),
    ],
)
def test_namespaces_of_sandbox_and_containers(spec: Object, expected: tuple[int, int, int]) -> None:
    parsed = read_pod(pod(**spec))
    for options in (
        sandbox_config(parsed, 0, Path("/l")).linux.security_context.namespace_options,
        config(container("a"), **spec).linux.security_context.namespace_options,
    ):
        assert (options.network, options.pid, options.ipc) == expected


def test_sandbox() -> None:
    privileged = container("a", securityContext={"privileged": True}, resources={"requests": {"cpu": "500m"}})
    given = {"runAsUser": 5, "fsGroup": 6, "sysctls": [{"name": "net.core.somaxconn", "value": "100"}]}
    made = sandbox_config(
        read_pod(pod(privileged, securityContext=given, overhead={"cpu": "250m"})), 0, Path("/l")
    ).linux
    assert made.security_context.privileged
    assert made.security_context.seccomp.profile_type == PROFILE.RuntimeDefault
    assert made.security_context.run_as_user.value == 5
    assert list(made.security_context.supplemental_groups) == [6]
    assert dict(made.sysctls) == {"net.core.somaxconn": "100"}
    assert (made.resources.cpu_shares, made.overhead.cpu_shares) == (512, 256)


@pytest.mark.parametrize(
    ("name", "expected"),
    [(None, 0), ("SIGUSR1", pb.SIGNAL_SIGUSR1), ("SIGRTMIN+2", pb.SIGNAL_SIGRTMINPLUS2), ("SIGNOPE", 0)],
)
def test_stop_signal(name: str, expected: int) -> None:
    lifecycle = {"stopSignal": name} if name else {}
    assert config(container("a", lifecycle=lifecycle)).stop_signal == expected


def test_sysctls_of_a_sandbox_have_names_with_dots() -> None:
    given = {"kernel/shm_rmid_forced": "1", "net/ipv4/conf/eth0.1/forwarding": "0", "kernel.msgmax": "9"}
    context = {"sysctls": [{"name": name, "value": value} for name, value in given.items()]}
    assert sysctls(read_pod(pod(container("a"), securityContext=context))) == {
        "kernel.shm_rmid_forced": "1",
        "net.ipv4.conf.eth0/1.forwarding": "0",
        "kernel.msgmax": "9",
    }


def test_what_is_not_enforced_is_said() -> None:
    def said(raw: views.Container | None = None, embedded: bool = True, root: bool = True, **spec: Any) -> str:
        return unenforced(read_pod(pod(raw or container("a"), **spec)), embedded, root)

    strict = container(
        "a",
        securityContext={
            "seccompProfile": {"type": "RuntimeDefault"},
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        ports=[{"containerPort": 80, "hostPort": 8080}],
    )
    wishes: Object = {"securityContext": {"sysctls": [{"name": "x", "value": "1"}]}}
    assert said() == ""
    assert said(strict, **wishes) == (
        "not enforced on this node: seccompProfile RuntimeDefault of container a, "
        "hostPort 8080 of container a (it listens on 80)"
    )
    assert "capabilities.drop of container a (it needs root)" in said(strict, root=False)
    assert "sysctls (they need root)" in said(strict, root=False, **wishes)
    assert said(strict, embedded=False, **wishes) == ""
    two = [container("a"), container("b")]
    for embedded, root in ((False, True), (True, False)):
        assert "pod as a whole" in unenforced(read_pod(pod(*two, resources={"limits": {"cpu": 1}})), embedded, root)
    assert unenforced(read_pod(pod(*two, resources={"limits": {"cpu": 1}})), True, True) == ""


def whole(limits_: Object | None = None, requests: Object | None = None, *containers: views.Container) -> Any:
    given = {key: amounts for key, amounts in (("limits", limits_), ("requests", requests)) if amounts}
    made: Any = pod(*(containers or [container("a", resources={})]), resources=given)
    apply_defaults(made)
    return made


def test_resources_of_a_pod_as_a_whole() -> None:
    fixed = whole({"cpu": "2", "memory": "1Gi"})
    assert fixed["spec"]["resources"]["requests"] == {"cpu": "2", "memory": "1Gi"}
    assert qos_class(fixed) == limits.qos_class(fixed["spec"]) == "Guaranteed"
    assert not admit_request(read_pod(fixed), []).guaranteed
    assert pod_requests(fixed["spec"])["cpu"] == amounts({"cpu": "2"})["cpu"]
    asking = container("a", resources={"requests": {"cpu": "500m"}})
    made = whole({"cpu": "2"}, None, asking, container("b", resources={"limits": {"cpu": "1"}}))
    assert made["spec"]["resources"]["requests"] == {"cpu": "1500m"}
    assert qos_class(made) == "Burstable"
    parsed = read_pod(made)
    quotas = [
        container_config(ConfigInputs(parsed, one, 0, NodeFields("n1"), Path("/r"))).linux.resources.cpu_quota
        for one in parsed.containers
    ]
    assert quotas == [200_000, 100_000]
    assert sandbox_config(parsed, 0, Path("/l")).linux.resources.cpu_shares == 1536
    assert limits.oom_score(whole(None, {"memory": "512Mi"})["spec"], container("a"), 1 << 30) == 500


@pytest.mark.parametrize(
    ("resources", "shares", "quota"),
    [
        ({"requests": {"cpu": "256"}}, 262_144, 0),
        ({"requests": {"cpu": "384"}}, 262_144, 0),
        ({"requests": {"cpu": "1m"}}, 2, 0),
        ({"requests": {"cpu": "0"}, "limits": {"cpu": "1"}}, 2, 100_000),
        ({"limits": {"cpu": "1"}}, 1024, 100_000),
        ({"limits": {"cpu": "1e15"}}, 262_144, 2**63 - 1),
    ],
)
def test_shares_and_quota_are_values_that_the_kernel_takes(
    resources: views.ResourceRequirements, shares: int, quota: int
) -> None:
    found = limits.linux_resources(resources)
    assert (found.cpu_shares, found.cpu_quota) == (shares, quota)


def test_node_critical_pod_is_killed_last_when_memory_runs_out() -> None:
    raw = container("a", resources={"requests": {"cpu": "1"}})
    scores = [
        limits.oom_score(pod(raw, priorityClassName=name)["spec"], raw, 1 << 30)
        for name in ("system-node-critical", "system-cluster-critical")
    ]
    assert scores == [-997, 999]


def test_sidecar_is_not_killed_before_all_apps_when_memory_runs_out() -> None:
    apps = [
        container(name, resources={"requests": {"memory": size}}) for name, size in (("a", "512Mi"), ("b", "256Mi"))
    ]
    init, small = container("i"), container("s", restartPolicy="Always", resources={"requests": {"memory": "64Mi"}})
    spec = pod(*apps, inits=[init, small])["spec"]
    assert [limits.oom_score(spec, raw, 1 << 30) for raw in (*apps, init, small)] == [500, 750, 999, 750]


@pytest.mark.parametrize(
    ("resources", "own", "parent"),
    [
        ({}, {}, "/kubepods/besteffort/poduid-p"),
        ({"requests": {"cpu": "1"}}, {}, "/kubepods/burstable/poduid-p"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, {}, "/kubepods/poduid-p"),
        ({}, {"limits": {"memory": "1Gi"}}, "/kubepods/burstable/poduid-p"),
        ({}, {"limits": {"cpu": "0", "memory": "1Gi"}}, "/kubepods/burstable/poduid-p"),
    ],
)
def test_cgroup_of_a_pod_is_in_kubelets_layout(resources: Object, own: Object, parent: str) -> None:
    spec = read_pod(pod(container("a", resources=resources), resources=own))
    made = sandbox_config(spec, 0, Path("/l"), embedded=True).linux
    assert made.cgroup_parent == parent.replace("uid-p", spec.uid)
    assert dict(made.resources.unified) == ({"memory.max": str(1 << 30)} if own else {})
    assert sandbox_config(spec, 0, Path("/l")).linux.cgroup_parent == ""


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (whole({"example.com/gpu": "1"}), 'Unsupported value: "example.com/gpu"'),
        (whole({"cpu": "1"}, {"cpu": "2"}), "must be less than or equal to cpu limit of 1"),
        (
            whole(None, {"cpu": "1"}, container("a", resources={"requests": {"cpu": "2"}})),
            "must be greater than or equal to aggregate container requests of 2",
        ),
        (
            whole(
                {"cpu": "1"}, {"cpu": "1"}, container("a", resources={"requests": {"cpu": "0"}, "limits": {"cpu": "3"}})
            ),
            "must be less than or equal to pod limits of 1",
        ),
        (whole({"cpu": "x"}), "quantities must match"),
    ],
)
def test_whole_pods_that_are_refused(made: Object, words: str) -> None:
    assert any(words in str(cause) for cause in pod_causes(made)), pod_causes(made)


async def test_an_empty_dir_belongs_to_the_pods_group(tmp_path: Path) -> None:
    mine = os.getgid()
    parsed = read_pod(pod(securityContext={"fsGroup": mine}, volumes=[{"name": "v", "emptyDir": {}}]))
    deps = FakeDependencies(tmp_path).deps
    await Volumes(deps, lambda: parsed).prepare(NodeFields("n1"))
    made = VolumePaths(parsed, tmp_path).path("v").stat()
    assert made.st_gid == mine
    assert made.st_mode & 0o7777 == 0o2777
