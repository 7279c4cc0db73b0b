"""From a request to namespaces, capabilities, sysctls and device nodes: the rules, as if run by root."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from actors.runtime.model.containers import DeviceNode, Image, ImageConfig
from actors.runtime.model.errors import CdiUnusable, InvalidRequest
from actors.runtime.operations.cdi_devices import CdiFiles, missing_nodes
from actors.runtime.shim.isolation import NOTHING, parse
from actors.runtime.spec import isolation, sysctls
from actors.runtime.spec.isolation import Surroundings, isolation_spec
from actors.runtime.spec.users import DEFAULT, NAMES, dropped
from protocols.process import linux
from protocols.wire import cri_pb2 as pb

BOX = Image("sha256:1", ("box:1",), "/images/1", 1, ImageConfig())
NODE = DeviceNode("/dev/x", "c", 1, 3)


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (isolation, sysctls):
        monkeypatch.setattr(module, "namespaces_allowed", lambda: True)
    monkeypatch.setattr(isolation, "recursive_read_only", lambda: True)


@pytest.fixture
def as_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (isolation, sysctls):
        monkeypatch.setattr(module, "namespaces_allowed", lambda: False)


def pod(host: bool = False, **fields: Any) -> pb.PodSandboxConfig:
    options = pb.NamespaceOption(network=pb.NODE if host else pb.POD)
    context = pb.LinuxSandboxSecurityContext(namespace_options=options)
    name = pb.PodSandboxMetadata(name="p")
    return pb.PodSandboxConfig(metadata=name, linux=pb.LinuxPodSandboxConfig(security_context=context), **fields)


def config(pid: int = pb.CONTAINER, **context: Any) -> pb.ContainerConfig:
    options = pb.NamespaceOption(pid=pid)  # type: ignore[arg-type]  # the enum's numbers
    security = pb.LinuxContainerSecurityContext(namespace_options=options, **context)
    return pb.ContainerConfig(linux=pb.LinuxContainerConfig(security_context=security))


@pytest.mark.usefixtures("as_root")
def test_isolation_of_a_plain_pod_is_its_processes_and_name() -> None:
    found = parse(isolation_spec(config(), pod()))
    assert (found.processes, found.hostname, found.pid_of) == (True, "p", 0)
    assert found.kinds == ["uts", "mnt"]
    on_host = parse(isolation_spec(config(), pod(host=True)))
    assert (on_host.processes, on_host.hostname) == (True, "")
    shared = parse(isolation_spec(config(pb.POD), pod(), None, Surroundings(pid_of=7)))
    assert (shared.processes, shared.pid_of) == (False, 7)
    node = parse(isolation_spec(config(pb.NODE), pod()))
    assert (node.processes, node.pid_of) == (False, 0)
    assert parse(isolation_spec(config(), pod(hostname="h" * 65))).hostname == "h" * 64
    none = isolation_spec(config(), pod(annotations={isolation.ISOLATION: "none"}))
    assert parse(none) == NOTHING


@pytest.mark.usefixtures("as_root")
def test_masked_paths_hold_unless_privileged() -> None:
    paths: dict[str, Any] = {"masked_paths": ["/proc/kcore"], "readonly_paths": ["/proc/sys"]}
    held = parse(isolation_spec(config(**paths), pod()))
    assert (held.masked, held.sealed) == (("/proc/kcore",), ("/proc/sys",))
    free = parse(isolation_spec(config(privileged=True, **paths), pod()))
    assert (free.masked, free.sealed, free.privileged) == ((), (), True)


@pytest.mark.usefixtures("as_root")
def test_devices_of_an_image_are_bound_into_its_own_dev() -> None:
    asked = config()
    asked.devices.add(container_path="/dev/fuse", host_path="/dev/fuse")
    assert parse(isolation_spec(asked, pod())).mounts == ()
    assert [mount.target for mount in parse(isolation_spec(asked, pod(), BOX)).mounts] == ["/dev/fuse"]


@pytest.mark.usefixtures("as_root")
@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"readonly": False}, "needs readonly"),
        ({"readonly": True, "propagation": pb.PROPAGATION_BIDIRECTIONAL}, "needs private propagation"),
    ],
)
def test_recursive_read_only_mount_that_contradicts_itself_is_rejected(fields: dict[str, Any], says: str) -> None:
    asked = config()
    asked.mounts.add(container_path="/a", host_path="/b", recursive_read_only=True, **fields)
    with pytest.raises(InvalidRequest, match=says):
        isolation_spec(asked, pod())


@pytest.mark.usefixtures("as_user")
def test_users_other_than_root_are_told_what_needs_root() -> None:
    assert isolation_spec(config(masked_paths=["/proc/kcore"]), pod()) is None
    for asked in ((config(), pod(), BOX), (config(), pod(), None, Surroundings(nodes=(NODE,)))):
        with pytest.raises(InvalidRequest, match="run as root"):
            isolation_spec(*asked)
    sysctls.check_sysctls({"kernel.panic": "1"})
    assert sysctls.kernel_paths({"kernel.msgmax": "1"}) == {}


@pytest.mark.usefixtures("as_root")
def test_sysctls_outside_ipc_are_rejected() -> None:
    sysctls.check_sysctls({"kernel.shm_rmid_forced": "1", "kernel/sem": "1 2 3 4", "fs.mqueue.msg_max": "5"})
    assert sysctls.kernel_paths({"kernel/sem": "1"}) == {"kernel/sem": "1"}
    for name in ("kernel.panic", "vm.swappiness", "fs.mqueue", "fs.mqueue.a.b", "kernel.shm_/../panic", "net.a", ""):
        with pytest.raises(InvalidRequest, match="sysctl"):
            sysctls.check_sysctls({name: "1"})


@pytest.mark.parametrize(
    ("add", "drop", "held"),
    [
        ([], [], DEFAULT),
        (["SYS_ADMIN"], ["MKNOD"], DEFAULT | {21} - {27}),
        (["ALL"], ["cap_net_raw"], frozenset(range(len(NAMES)))),
        (["KILL"], ["ALL"], {5}),
        (["ALL"], ["ALL"], set()),
        (["KILL"], ["KILL"], DEFAULT),
    ],
)
def test_dropped_capabilities_are_all_but_those_held(add: list[str], drop: list[str], held: set[int]) -> None:
    wanted = pb.Capability(add_capabilities=add, drop_capabilities=drop)
    numbers = {NAMES.index(name.upper().removeprefix("CAP_")) for name in drop if name != "ALL"}
    found = set(dropped(pb.LinuxContainerSecurityContext(capabilities=wanted)))
    assert set(range(len(NAMES))) - found == set(held) - numbers


def nodes_of(directory: Path, *nodes: dict[str, Any]) -> tuple[DeviceNode, ...]:
    device = {"name": "a", "containerEdits": {"deviceNodes": list(nodes)}}
    (directory / "x.json").write_text(json.dumps({"cdiVersion": "0.6.0", "kind": "v.com/c", "devices": [device]}))
    return missing_nodes(CdiFiles((directory,)).find(["v.com/c=a"]))


def test_device_nodes_of_the_host_are_used_and_others_made(tmp_path: Path) -> None:
    null = os.stat("/dev/null").st_rdev
    same = {"path": "/dev/null", "type": "c", "major": os.major(null), "minor": os.minor(null)}
    assert nodes_of(tmp_path, same, {"path": "/dev/null"}, {"path": "/dev/y", "hostPath": "/dev/zero"}) == ()
    other = {"path": "/dev/null", "type": "c", "major": 7, "minor": 7, "fileMode": 0o600, "uid": 5}
    lacked = {"path": f"{tmp_path}/none", "type": "b", "major": 8, "minor": 1}
    assert nodes_of(tmp_path, other, lacked, lacked) == (
        DeviceNode("/dev/null", "c", 7, 7, 0o600, 5, -1),
        DeviceNode(f"{tmp_path}/none", "b", 8, 1, 0o666, -1, -1),
    )


@pytest.mark.parametrize(
    ("node", "says"),
    [
        ({"path": "/dev/np-none"}, "failed to stat CDI host device"),
        ({"path": "/dev/np-none", "type": "c"}, "failed to stat CDI host device"),
        ({"path": "/dev/null", "type": "b"}, "is no device of type"),
        ({"path": "/etc/hostname"}, "is no device of type"),
        ({"path": "/dev/x", "type": "z", "major": 1}, 'has the type "z"'),
    ],
)
def test_device_node_that_nothing_describes_is_rejected(tmp_path: Path, node: dict[str, Any], says: str) -> None:
    with pytest.raises(CdiUnusable, match=says):
        nodes_of(tmp_path, node)


@pytest.mark.skipif(os.geteuid() != 0, reason="other users have no namespaces in any case")
def test_root_whose_mounts_are_denied_has_no_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.readlink("/proc/self/ns/mnt")

    def denied(*_: object) -> None:
        raise PermissionError(1, "denied by a security module")

    monkeypatch.setattr(linux, "mount", denied)
    assert not isolation.namespaces_allowed.__wrapped__()
    assert os.readlink("/proc/self/ns/mnt") == before, "only a thread of the past left the host's"
