"""What the conformance suite of CRI asks of any runtime, as far as it can be asked without its images.

Each test names the specs it stands for; what is not here is in test_runtime_life (idempotence, exec, logs, stop),
test_runtime_own (users, limits, roots), test_runtime_spdy and test_streaming_plane (exec, attach, port-forward).
"""

import os
import socket
import time
from collections.abc import Awaitable
from importlib import metadata
from pathlib import Path
from typing import Any

import grpc
import pytest

from actors.runtime.spec.isolation import namespaces_allowed
from protocols.wire import cri_pb2 as pb
from tests.support.runtime import RuntimeProcess

NAMESPACES = pytest.mark.skipif(not namespaces_allowed(), reason="namespaces need root with CAP_SYS_ADMIN")


async def fails(awaitable: Awaitable[Any], code: grpc.StatusCode) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await awaitable
    assert caught.value.code() is code, caught.value


def said(log: str) -> list[str]:
    return [line.split(" ", 3)[3] for line in Path(log).read_text().splitlines()]


async def test_version_conditions_and_configuration(runtime: RuntimeProcess) -> None:
    """Runtime info: should return version info; should return runtime conditions."""

    version = await runtime.call("Version")
    assert all((version.version, version.runtime_name, version.runtime_version, version.runtime_api_version))
    assert version.runtime_version == metadata.version("nodeplane")
    status = await runtime.call("Status", verbose=True)
    conditions = {condition.type: condition.status for condition in status.status.conditions}
    assert conditions == {"RuntimeReady": True, "NetworkReady": True}
    assert "resources" in status.info["info"]
    assert [handler.name for handler in status.runtime_handlers] == [""]
    config = await runtime.call("RuntimeConfig")
    assert config.HasField("linux")
    assert config.linux.cgroup_driver == pb.CGROUPFS
    cidr = pb.RuntimeConfig(network_config=pb.NetworkConfig(pod_cidr="10.0.0.0/24"))
    await runtime.call("UpdateRuntimeConfig", runtime_config=cidr)


async def test_what_this_runtime_does_not_have_says_so(runtime: RuntimeProcess) -> None:
    """PodSandbox metrics (skipped on UNIMPLEMENTED), checkpoints, streamed lists."""

    for method in ("ListMetricDescriptors", "ListPodSandboxMetrics", "CheckpointContainer"):
        await fails(runtime.call(method), grpc.StatusCode.UNIMPLEMENTED)
    handler = {"runtime_handler": "kata"}
    meta = pb.PodSandboxMetadata(name="x", uid="x", namespace="x")
    config = pb.PodSandboxConfig(metadata=meta)
    await fails(runtime.call("RunPodSandbox", config=config, **handler), grpc.StatusCode.INVALID_ARGUMENT)


async def test_a_sandbox_keeps_what_it_was_given(runtime: RuntimeProcess) -> None:
    """PodSandbox: should support running, stopping, removing; preserving all of the PodSandbox's attributes."""

    labels, annotations = {"app": "x", "tier": "y"}, {"note": "any text, also\nlines"}
    id = await runtime.sandbox("kept", attempt=7, labels=labels, annotations=annotations)
    (listed,) = (await runtime.call("ListPodSandbox", filter=pb.PodSandboxFilter(label_selector=labels))).items
    found = (await runtime.call("PodSandboxStatus", pod_sandbox_id=id)).status
    for shown in (listed, found):
        assert (shown.id, shown.metadata.name, shown.metadata.attempt) == (id, "kept", 7)
        assert (dict(shown.labels), dict(shown.annotations)) == (labels, annotations)
        assert shown.state == pb.SANDBOX_READY
        assert abs(shown.created_at - time.time_ns()) < 60_000_000_000
    await runtime.call("StopPodSandbox", pod_sandbox_id=id)
    assert (await runtime.call("PodSandboxStatus", pod_sandbox_id=id)).status.state == pb.SANDBOX_NOTREADY
    await runtime.call("RemovePodSandbox", pod_sandbox_id=id)
    await fails(runtime.call("PodSandboxStatus", pod_sandbox_id=id), grpc.StatusCode.NOT_FOUND)


async def test_stats_of_what_was_asked_for(runtime: RuntimeProcess) -> None:
    """Container stats: listing; of started containers; filter nil; three created, filter nil; filtered by labels."""

    sandboxes = [await runtime.sandbox(f"p{number}") for number in range(3)]
    ids = [
        await runtime.run(sandbox, "sleep", "60", labels={"n": str(number % 2)})
        for number, sandbox in enumerate(sandboxes)
    ]
    every = (await runtime.call("ListContainerStats")).stats
    assert {stats.attributes.id for stats in every} == set(ids)
    assert all(stats.memory.working_set_bytes.value > 0 and stats.cpu.timestamp for stats in every)
    some = pb.ContainerStatsFilter(label_selector={"n": "0"})
    found = (await runtime.call("ListContainerStats", filter=some)).stats
    assert {stats.attributes.id for stats in found} == {ids[0], ids[2]}
    assert (await runtime.call("ContainerStats", container_id=ids[1])).stats.attributes.labels["n"] == "1"
    await fails(runtime.call("ContainerStats", container_id="0" * 64), grpc.StatusCode.NOT_FOUND)
    pods = (await runtime.call("ListPodSandboxStats")).stats
    assert {pod.attributes.id for pod in pods} == set(sandboxes)
    (one,) = [pod for pod in pods if pod.attributes.id == sandboxes[0]]
    assert one.linux.process.process_count.value == 1
    assert one.linux.memory.working_set_bytes.value > 0
    assert [stats.attributes.id for stats in one.linux.containers] == ids[:1]


@NAMESPACES
async def test_volumes_host_paths_that_are_links_names_and_name_servers(runtime: RuntimeProcess) -> None:
    """Container: starting with volume; when host path is a symlink. Networking: set hostname; DNS config."""

    real, link = runtime.root / "real", runtime.root / "link"
    real.mkdir()
    (real / "file").write_text("here")
    link.symlink_to(real)
    dns = pb.DNSConfig(servers=["10.10.10.10"], searches=["example.org", "x.y"], options=["ndots:8"])
    sandbox = await runtime.sandbox(
        "named", hostname="chosen", dns_config=dns, annotations={"nodeplane.dev/isolation": "uts"}
    )
    mounts = [pb.Mount(host_path=str(path), container_path=f"/np-spec/{path.name}") for path in (real, link)]
    script = "cat /np-spec/real/file; echo; cat /np-spec/link/file; echo; hostname; cat /etc/resolv.conf"
    id = await runtime.run(sandbox, "sh", "-c", script, mounts=mounts)
    lines = said((await runtime.ended(id)).log_path)
    assert lines[:3] == ["here", "here", "chosen"]
    assert lines[3:] == ["nameserver 10.10.10.10", "search example.org x.y", "options ndots:8"]
    assert socket.gethostname() != "chosen"


async def test_security_contexts_that_cost_nothing(runtime: RuntimeProcess) -> None:
    """HostPID true; HostIpc true; NoNewPrivs; ReadOnlyRootfs false; Privileged false; RunAsGroup alone is an error."""

    sandbox = await runtime.sandbox()
    shared = pb.NamespaceOption(pid=pb.NODE, ipc=pb.NODE)
    context = pb.LinuxContainerSecurityContext(namespace_options=shared, no_new_privs=True)
    linux = pb.LinuxContainerConfig(security_context=context)
    script = "readlink /proc/self/ns/pid /proc/self/ns/ipc; grep NoNewPrivs /proc/self/status"
    id = await runtime.run(sandbox, "sh", "-c", script, linux=linux)
    ended = await runtime.ended(id)
    assert ended.exit_code == 0
    own = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("pid", "ipc")]
    assert said(ended.log_path) == [*own, "NoNewPrivs:\t1"]
    alone = pb.LinuxContainerSecurityContext(run_as_group=pb.Int64Value(value=5))
    wrong = pb.LinuxContainerConfig(security_context=alone)
    await fails(runtime.create(sandbox, "true", name="g", linux=wrong), grpc.StatusCode.INVALID_ARGUMENT)


async def test_images_without_a_registry(runtime: RuntimeProcess) -> None:
    """Images: status of what is absent is no error; removal of it neither; a reference leads back to its image."""

    service, image = "ImageService", pb.ImageSpec(image="busybox:1")
    reference = (await runtime.call("PullImage", service, image=image)).image_ref
    spec = pb.ImageSpec(image=reference)
    assert (await runtime.call("ImageStatus", service, image=spec)).image.id
    found = await runtime.call("ListImages", service, filter=pb.ImageFilter(image=image))
    assert [item.repo_tags[0] for item in found.images] == ["busybox:1"]
    await runtime.call("RemoveImage", service, image=image)
    await runtime.call("RemoveImage", service, image=image)
    assert not (await runtime.call("ListImages", service)).images
    info = await runtime.call("ImageFsInfo", service)
    assert info.image_filesystems[0].fs_id.mountpoint


async def test_resources_of_a_created_a_running_and_an_ended_container(runtime: RuntimeProcess) -> None:
    """UpdateContainerResources, and what ContainerStatus then says."""

    sandbox = await runtime.sandbox()
    created = await runtime.create(sandbox, "sleep", "60", name="a")
    limits = pb.LinuxContainerResources(memory_limit_in_bytes=64 << 20, cpu_shares=512)
    await runtime.call("UpdateContainerResources", container_id=created, linux=limits)
    await runtime.call("StartContainer", container_id=created)
    pages = [pb.HugepageLimit(page_size="2MB", limit=0)]
    more = pb.LinuxContainerResources(memory_limit_in_bytes=96 << 20, hugepage_limits=pages)
    for _ in range(2):
        await runtime.call("UpdateContainerResources", container_id=created, linux=more)
    shown = (await runtime.status(created)).resources.linux
    assert list(shown.hugepage_limits) == pages
    assert (shown.memory_limit_in_bytes, shown.cpu_shares) == (96 << 20, 512)
    await runtime.call("StopContainer", container_id=created, timeout=0)
    ended = runtime.call("UpdateContainerResources", container_id=created, linux=more)
    await fails(ended, grpc.StatusCode.FAILED_PRECONDITION)
    unknown = runtime.call("UpdateContainerResources", container_id="0" * 64, linux=more)
    await fails(unknown, grpc.StatusCode.NOT_FOUND)
