from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from actors.podworker.pods.containers.security import sysctls
from protocols.errors import SettingsInvalid
from protocols.kinds import views
from protocols.lifecycle.pods.admission import forbidden_sysctl
from protocols.lifecycle.pods.types import read_pod
from protocols.node.sysctls import SAFE, allowlist, namespace_of, normalized, unsafe_sysctls
from tests.support.podworker_fakes import pod
from tests.support.podworker_scene import Scene, at_work


def asking(*names: str, **spec: Any) -> views.Pod:
    return pod(securityContext={"sysctls": [{"name": name, "value": "1"} for name in names]}, **spec)


def rejected(raw: views.Pod, kernel: str = "6.1.0-18-amd64", unsafe: str = "") -> tuple[str, str] | None:
    found = forbidden_sysctl(read_pod(raw), allowlist(kernel, unsafe_sysctls(unsafe)))
    return (found.reason, found.message) if found else None


def test_allowlist_safe_sysctls_need_their_kernel() -> None:
    assert rejected(asking(*SAFE)) is None
    assert allowlist("4.4").names == {name for name, since in SAFE.items() if since <= (4, 4)}
    assert "net.ipv4.tcp_keepalive_time" not in allowlist("unknown").names
    assert "net.ipv4.tcp_rmem" in allowlist("unknown").names


def test_forbidden_sysctl_reason_and_message_are_kubelets() -> None:
    text = 'Pod was rejected: forbidden sysctl: "net.core.somaxconn" not allowlisted'
    assert rejected(asking("net.core.somaxconn")) == ("SysctlForbidden", text)
    assert rejected(asking("net.core.somaxconn"), unsafe="kernel.sem, net.core.*") is None
    assert rejected(asking("kernel.sem"), unsafe="kernel.sem,net.core.*") is None
    assert rejected(asking("kernel.semantics"), unsafe="kernel.sem") is not None
    assert rejected(pod()) is None


def test_forbidden_sysctl_host_namespaces() -> None:
    text = 'Pod was rejected: forbidden sysctl: "net/ipv4/tcp_syncookies" not allowed with host net enabled'
    assert rejected(asking("net/ipv4/tcp_syncookies")) is None
    assert rejected(asking("net/ipv4/tcp_syncookies", hostNetwork=True)) == ("SysctlForbidden", text)
    assert "host ipc" in str(rejected(asking("kernel.shm_rmid_forced", hostIPC=True)))
    assert rejected(asking("kernel.shm_rmid_forced", hostNetwork=True)) is None


@pytest.mark.parametrize("text", ["vm.swappiness", "*", "kernel.*", "net.*.x", "kernel.sem,,x"])
def test_unsafe_sysctls_outside_of_namespaces_are_rejected(text: str) -> None:
    with pytest.raises(SettingsInvalid, match="is no sysctl of a namespace"):
        unsafe_sysctls(text)


@given(st.text("ab./*", max_size=12))
def test_normalized_is_stable(text: str) -> None:
    assert normalized(normalized(text)) == normalized(text)
    assert namespace_of(f"net.{text}") == "net"


def test_sysctls_reach_the_runtime_with_dots() -> None:
    assert sysctls(read_pod(asking("net/ipv4/conf/eno2.100/x"))) == {"net.ipv4.conf.eno2/100.x": "1"}


async def test_worker_pod_with_unsafe_sysctl_fails_without_a_sandbox(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {**asking("kernel.msgmax"), "status": {"phase": "Pending"}})
    async with at_work(scene):
        await scene.until(lambda: scene.status.get("phase") == "Failed")
        assert scene.status["reason"] == "SysctlForbidden"
        event = ("Warning", "SysctlForbidden", 'forbidden sysctl: "kernel.msgmax" not allowlisted')
        assert scene.fake.recorder.events == [event]
        assert not scene.fake.runtime.calls
        assert not scene.fake.devices.admitted
