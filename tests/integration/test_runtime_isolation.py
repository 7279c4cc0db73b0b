"""What containers have of their own by default where the plane is root: processes, host name, devices, rights."""

import asyncio
import json
import os
import shutil
import signal
import stat
from pathlib import Path
from typing import Any

import grpc
import pytest

from actors.podworker.pods.containers.security import MASKED, READ_ONLY
from actors.runtime.spec.isolation import namespaces_allowed, recursive_read_only
from protocols.bus import Bus, BusOptions
from protocols.messages.runtime import IMPORT_IMAGE, OWNER, ImageInfo, ImportImage
from protocols.wire import cri_pb2 as pb
from tests.support.images import docker_archive
from tests.support.runtime import RuntimeProcess, alive, limits, running
from tests.support.waiting import until_true

pytestmark = pytest.mark.skipif(not namespaces_allowed(), reason="namespaces need root with CAP_SYS_ADMIN")
IMAGES = pytest.mark.skipif(shutil.which("busybox") is None, reason="busybox is not installed (busybox-static)")
CONTAINER = pb.NamespaceOption(pid=pb.CONTAINER)


def linux(**context: Any) -> pb.LinuxContainerConfig:
    context.setdefault("namespace_options", CONTAINER)
    return pb.LinuxContainerConfig(security_context=pb.LinuxContainerSecurityContext(**context))


async def inside(runtime: RuntimeProcess, id: str, script: str) -> str:
    done = await runtime.call("ExecSync", container_id=id, cmd=["sh", "-c", script], timeout=20)
    return str((done.stdout + done.stderr).decode())


async def said(runtime: RuntimeProcess, id: str) -> str:
    return words_of((await runtime.ended(id)).log_path)


def words_of(log: str) -> str:
    return "\n".join(line.split(" ", 3)[3] for line in text_of(log).splitlines())


def text_of(path: str) -> str:
    return Path(path).read_text()


def remove(*paths: str) -> None:
    for path in paths:
        Path(path).unlink(missing_ok=True)


async def imported(runtime: RuntimeProcess) -> ImageInfo:
    bus = Bus(BusOptions(name="tester", run_dir=runtime.settings.layout.run))
    await bus.start()
    try:
        path = docker_archive(runtime.root / "box.tar", "box:1")
        return await bus.call(OWNER, IMPORT_IMAGE, ImportImage(str(path)), ImageInfo, timeout=60)
    finally:
        await bus.close()


def holder(runtime: RuntimeProcess, sandbox: str) -> int:
    record = json.loads((runtime.root / "runtime" / "sandboxes" / f"{sandbox}.json").read_text())
    return int(record["holder"]["pid"])


async def refused(call: Any, says: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    assert says in (caught.value.details() or "")


PIDS = "ls -d /proc/[0-9]* | wc -l"


async def test_container_without_options_of_its_pod_sees_its_own_processes() -> None:
    async with RuntimeProcess() as runtime:
        sandbox = await runtime.sandbox(hostname="inner")
        alone = await runtime.run(sandbox, "sleep", "600", name="alone", linux=linux())
        assert await inside(runtime, alone, "cat /proc/1/comm; hostname; cat /proc/sys/kernel/hostname") == (
            "sleep\ninner\ninner\n"
        )
        assert int(await inside(runtime, alone, PIDS)) < 8
        node = await runtime.run(
            sandbox, "sleep", "600", name="node", linux=linux(namespace_options=pb.NamespaceOption(pid=pb.NODE))
        )
        assert await inside(runtime, node, f"test -d /proc/{runtime.pid} && echo seen") == "seen\n"
        plain = await runtime.sandbox(annotations={"nodeplane.dev/isolation": "none"})
        bare = await runtime.run(plain, "sleep", "600", name="bare", linux=linux())
        assert await inside(runtime, bare, f"test -d /proc/{runtime.pid} && hostname") == f"{os.uname().nodename}\n"
        await runtime.call("StopContainer", container_id=alone, timeout=20)
        assert (await runtime.status(alone)).exit_code == 128 + signal.SIGTERM, "as in a shell, not after the grace"


async def test_containers_of_a_pod_share_processes_and_survive_the_runtime() -> None:
    async with RuntimeProcess() as runtime:
        sandbox = await runtime.sandbox()
        shared = linux(namespace_options=pb.NamespaceOption(pid=pb.POD))
        nap = f"601.{os.getpid()}"
        one = await runtime.run(sandbox, "sh", "-c", f"setsid sleep {nap} & sleep 600", name="one", linux=shared)
        two = await runtime.run(sandbox, "sleep", "700", name="two", linux=shared)
        await until_true(lambda: running("sleep", nap))
        assert await inside(runtime, two, "cat /proc/1/comm; cat /proc/[0-9]*/cmdline | tr '\\0' ' '") != ""
        assert (await inside(runtime, two, "cat /proc/1/comm")) == "pause\n"
        assert nap in await inside(runtime, two, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        await runtime.kill()
        await runtime.start()
        third = await runtime.run(sandbox, "sleep", "800", name="third", linux=shared)
        assert "sleep 700" in await inside(runtime, third, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        await runtime.call("StopContainer", container_id=one, timeout=20)
        assert not running("sleep", nap), "a daemon in the shared namespace ends with its container"
        assert (await runtime.status(two)).state == pb.CONTAINER_RUNNING
        pid = holder(runtime, sandbox)
        await runtime.call("StopPodSandbox", pod_sandbox_id=sandbox)
        await until_true(lambda: not alive(pid))


async def test_containers_reach_neither_files_nor_interpreter_of_the_host_by_another_process() -> None:
    """Of a pod's `pause`, /proc/1/root, with CAP_SYS_PTRACE; of a shim's child /proc/self/exe (CVE-2019-5736)."""
    rights = pb.Capability(add_capabilities=["SYS_PTRACE"])
    shared = linux(namespace_options=pb.NamespaceOption(pid=pb.POD), capabilities=rights)
    async with RuntimeProcess() as runtime:
        script = "cat /proc/1/comm; ls -A /proc/1/root/; touch /proc/1/root/x /proc/1/cwd/x; echo > /proc/1/exe"
        id = await runtime.run(await runtime.sandbox(), "sh", "-c", script, linux=shared)
        shown = (await said(runtime, id)).splitlines()
        assert shown[0] == "pause"
        assert len(shown) == 4
        assert all("Read-only file system" in line for line in shown[1:3])
        change = "import os; os.chmod('/proc/self/exe', os.stat('/proc/self/exe').st_mode)"
        id = await runtime.run(await runtime.sandbox(), "/proc/self/exe", "-c", change, linux=linux())
        assert "Read-only file system" in await said(runtime, id)


async def test_sandbox_whose_namespaces_are_killed_is_not_ready() -> None:
    async with RuntimeProcess() as runtime:
        sandbox = await runtime.sandbox()
        shared = linux(namespace_options=pb.NamespaceOption(pid=pb.POD))
        id = await runtime.run(sandbox, "sleep", "600", linux=shared)
        os.kill(holder(runtime, sandbox), signal.SIGKILL)
        assert (await runtime.ended(id)).exit_code == 137

        async def state() -> int:
            found = await runtime.call("PodSandboxStatus", pod_sandbox_id=sandbox)
            return int(found.status.state)

        for _ in range(400):
            if await state() == pb.SANDBOX_NOTREADY:
                break
            await asyncio.sleep(0.05)
        assert await state() == pb.SANDBOX_NOTREADY
        await refused(runtime.create(sandbox, "true", name="late", linux=shared), "not ready")


async def test_debug_container_joins_the_processes_of_its_target() -> None:
    async with RuntimeProcess() as runtime:
        sandbox = await runtime.sandbox()
        target = await runtime.run(sandbox, "sleep", "600", name="target", linux=linux())
        into = linux(namespace_options=pb.NamespaceOption(pid=pb.TARGET, target_id=target))
        debug = await runtime.run(sandbox, "sh", "-c", "cat /proc/1/cmdline | tr '\\0' ' '", name="debug", linux=into)
        assert await said(runtime, debug) == "sleep 600 "
        lost = await runtime.create(
            sandbox,
            "true",
            name="lost",
            linux=linux(namespace_options=pb.NamespaceOption(pid=pb.TARGET, target_id=debug)),
        )
        await refused(runtime.call("StartContainer", container_id=lost), "does not run")


async def test_verbose_status_has_the_pid_and_the_specification() -> None:
    async with RuntimeProcess() as runtime:
        sandbox = await runtime.sandbox()
        nap = f"604.{os.getpid()}"
        created = await runtime.create(sandbox, "true", name="created", linux=linux())
        id = await runtime.run(sandbox, "sleep", nap, name="runs", linux=linux())
        for _ in range(2):
            found = await runtime.call("ContainerStatus", container_id=id, verbose=True)
            details = json.loads(found.info["info"])
            assert [details["pid"]] == running("sleep", nap)
            assert details["runtimeSpec"]["process"]["args"] == ["sleep", nap]
            assert {"type": "pid"} in details["runtimeSpec"]["linux"]["namespaces"]
            assert details["config"]["metadata"]["name"] == "runs"
            await runtime.kill()
            await runtime.start()
        found = await runtime.call("ContainerStatus", container_id=created, verbose=True)
        assert json.loads(found.info["info"])["pid"] == 0
        found = await runtime.call("PodSandboxStatus", pod_sandbox_id=sandbox, verbose=True)
        assert json.loads(found.info["info"])["pid"] == 0, "nothing of the pod is shared, so it has no process"


async def test_capabilities_are_the_default_set_unless_requested_otherwise() -> None:
    default = 0xA80425FB
    cases = {
        "plain": ({}, default),
        "adds": ({"capabilities": pb.Capability(add_capabilities=["NET_ADMIN"])}, default | 1 << 12),
        "drops": ({"capabilities": pb.Capability(drop_capabilities=["CAP_MKNOD"])}, default & ~(1 << 27)),
        "few": ({"capabilities": pb.Capability(drop_capabilities=["ALL"], add_capabilities=["KILL"])}, 1 << 5),
    }
    async with RuntimeProcess() as runtime:
        sandbox = await runtime.sandbox()
        for name, (context, held) in cases.items():
            id = await runtime.run(
                sandbox, "grep", "-E", "CapEff|NoNewPrivs", "/proc/self/status", name=name, linux=linux(**context)
            )
            found = (await said(runtime, id)).split()
            assert (int(found[1], 16), found[3]) == (held, "0"), name
        sealed = await runtime.run(
            sandbox, "grep", "NoNewPrivs", "/proc/self/status", name="nnp", linux=linux(no_new_privs=True)
        )
        assert (await said(runtime, sealed)).split() == ["NoNewPrivs:", "1"]
        full = await runtime.run(
            sandbox, "grep", "CapEff", "/proc/self/status", name="full", linux=linux(privileged=True)
        )
        ours = next(line for line in text_of("/proc/self/status").splitlines() if line.startswith("CapEff"))
        assert (await said(runtime, full)).split() == ours.split()


async def test_masked_and_read_only_paths_are_hidden_and_sealed() -> None:
    probe = "cat /proc/interrupts | wc -c; ls /sys/firmware | wc -l; echo 0 > /proc/sys/kernel/panic 2>&1"
    async with RuntimeProcess() as runtime:
        sandbox = await runtime.sandbox()
        paths = {"masked_paths": MASKED, "readonly_paths": READ_ONLY}
        id = await runtime.run(sandbox, "sh", "-c", probe, name="sealed", linux=linux(**paths))
        text = await said(runtime, id)
        assert text.split("\n")[:2] == ["0", "0"]
        assert "Read-only file system" in text
        free = await runtime.run(
            sandbox,
            "sh",
            "-c",
            "test -w /proc/sys/kernel/panic && echo free",
            name="free",
            linux=linux(privileged=True, **paths),
        )
        assert await said(runtime, free) == "free"


@IMAGES
async def test_volume_at_dev_replaces_no_masked_path(tmp_path: Path) -> None:
    (tmp_path / "null").symlink_to("/proc/sys/kernel/core_pattern")
    box: dict[str, Any] = {"image": "box:1", "mounts": [pb.Mount(host_path=str(tmp_path), container_path="/dev")]}
    async with RuntimeProcess() as runtime:
        await imported(runtime)
        masked = linux(masked_paths=["/proc/timer_list", "/proc/keys"])
        id = await runtime.create(await runtime.sandbox(), "true", linux=masked, **box)
        await refused(runtime.call("StartContainer", container_id=id), "masked paths: no such device")


async def test_masked_link_is_hidden_and_its_target_is_not(tmp_path: Path) -> None:
    (tmp_path / "program").write_text("found\n")
    (tmp_path / "link").symlink_to("program")
    (tmp_path / "dangling").symlink_to("nothing")
    async with RuntimeProcess() as runtime:
        masked = [str(tmp_path / name) for name in ("link", "dangling", "missing")]
        script = f"cd {tmp_path}; wc -c < link; wc -c < dangling; cat program; ls missing 2>&1"
        id = await runtime.run(
            await runtime.sandbox(), "sh", "-c", script, name="link", linux=linux(masked_paths=masked)
        )
        assert (await said(runtime, id)).split("\n")[:3] == ["0", "0", "found"]


async def test_sysctls_of_ipc_are_the_pods_and_others_are_refused() -> None:
    def given(**values: str) -> dict[str, Any]:
        return {"of_linux": {"sysctls": {name.replace("_0_", "."): value for name, value in values.items()}}}

    async with RuntimeProcess() as runtime:
        sandbox = await runtime.sandbox(**given(kernel_0_shm_rmid_forced="1", kernel_0_msgmax="65536"))
        before = text_of("/proc/sys/kernel/msgmax")
        script = "cat /proc/sys/kernel/shm_rmid_forced /proc/sys/kernel/msgmax; exec sleep 600"
        one = await runtime.run(sandbox, "sh", "-c", script, name="one", linux=linux())
        assert (
            await inside(runtime, one, "cat /proc/sys/kernel/shm_rmid_forced /proc/sys/kernel/msgmax") == "1\n65536\n"
        )
        assert text_of("/proc/sys/kernel/msgmax") == before
        other = await runtime.run(
            await runtime.sandbox(), "cat", "/proc/sys/kernel/msgmax", name="other", linux=linux()
        )
        assert await said(runtime, other) == before.strip()
        await refused(runtime.sandbox(**given(net_0_ipv4_0_tcp_syncookies="0")), "is of the network")
        await refused(runtime.sandbox(**given(kernel_0_panic="1")), "not in a separate kernel namespace")
        await refused(runtime.sandbox(**given(kernel_0_msgmax="x")), 'sysctl "kernel.msgmax" = "x": invalid')
        assert len((await runtime.call("ListPodSandbox")).items) == 2


@IMAGES
async def test_image_has_a_dev_of_its_own_and_no_node_made_in_it_works() -> None:
    places = "/disk /dev/disk /data/disk /data/below/disk /dev/shm/np-disk"
    makes = f"for n in {places}; do busybox mknod $n b 8 0; cat $n; done; busybox rm /dev/shm/np-disk; cat /data/loop"
    script = f"ls /dev; {makes}; echo x >/dev/null && cat /data/null && echo written"
    async with RuntimeProcess() as runtime:
        await imported(runtime)
        os.mknod(runtime.root / "loop", stat.S_IFBLK | 0o600, os.makedev(7, 0))
        sandbox = await runtime.sandbox()
        root = {"run_as_user": pb.Int64Value(value=0)}
        box = {"image": "box:1", "envs": [pb.KeyValue(key="PATH", value=b"/bin")]}
        own = await runtime.run(
            sandbox,
            "busybox",
            "sh",
            "-c",
            script,
            name="own",
            linux=linux(**root),
            mounts=[
                pb.Mount(host_path=f"{runtime.root}/data", container_path="/data"),
                pb.Mount(host_path=f"{runtime.root}/below", container_path="/data/below"),
                pb.Mount(host_path="/dev/null", container_path="/data/null"),
                pb.Mount(host_path=f"{runtime.root}/loop", container_path="/data/loop"),
            ],
            **box,
        )
        text = await said(runtime, own)
        names = text.split()
        assert {"fd", "full", "null", "ptmx", "pts", "random", "shm", "stdin", "tty", "urandom", "zero"} <= set(names)
        assert "written" in names
        assert text.count("Permission denied") == 6, text
        user = await runtime.run(
            sandbox, "busybox", "sh", "-c", "id -u > /dev/stdout", name="user", linux=linux(), **box
        )
        assert await said(runtime, user) == "1234", "a user may open the streams by name"
        device = pb.Device(container_path="/dev/mine", host_path="/dev/zero", permissions="rwm")
        given = await runtime.run(
            sandbox,
            "busybox",
            "sh",
            "-c",
            "busybox head -c 3 /dev/mine | busybox wc -c",
            name="given",
            linux=linux(**root),
            devices=[device],
            **box,
        )
        assert await said(runtime, given) == "3"
        full = await runtime.run(
            sandbox,
            "busybox",
            "sh",
            "-c",
            "test -e /dev/kmsg && echo all",
            name="full",
            linux=linux(privileged=True, **root),
            **box,
        )
        assert await said(runtime, full) == "all"
        script = f"echo 1 > /sys/kernel/mm/ksm/run; busybox mkdir /sys/fs/cgroup/{runtime.root.name} 2>&1"
        ro = await runtime.run(sandbox, "busybox", "sh", "-c", script, name="ro", linux=linux(**root), **box)
        assert (await said(runtime, ro)).count("Read-only") == 2, "neither what is mounted below"


@IMAGES
async def test_files_of_the_network_are_copies() -> None:
    files = ("/etc/hostname", "/etc/hosts", "/etc/resolv.conf")
    before = [text_of(file) for file in files]
    async with RuntimeProcess() as runtime:
        await imported(runtime)
        script = f"busybox cat {files[0]}; for f in {' '.join(files)}; do echo mine >> $f && echo ok; done"
        box = {"image": "box:1", "envs": [pb.KeyValue(key="PATH", value=b"/bin")]}
        user = linux(run_as_user=pb.Int64Value(value=0))
        id = await runtime.run(await runtime.sandbox("inner"), "busybox", "sh", "-c", script, linux=user, **box)
        assert (await said(runtime, id)).split() == ["inner", "ok", "ok", "ok"]
    assert [text_of(file) for file in files] == before


async def test_cdi_device_nodes_that_the_host_lacks_are_made() -> None:
    nodes = [
        {"path": "/dev/np-null", "type": "c", "major": 1, "minor": 3, "fileMode": 0o640, "gid": 7},
        {"path": "/dev/np-zero", "hostPath": "/dev/zero"},
    ]
    spec = {
        "cdiVersion": "0.6.0",
        "kind": "np.example.com/made",
        "devices": [
            {"name": "a", "containerEdits": {"deviceNodes": nodes}},
            {"name": "gone", "containerEdits": {"deviceNodes": [{"path": "/dev/np-gone"}]}},
        ],
    }
    async with RuntimeProcess() as runtime:
        cdi = runtime.settings.layout.cdi
        cdi.mkdir(parents=True, exist_ok=True)
        (cdi / "made.json").write_text(json.dumps(spec))
        sandbox = await runtime.sandbox()
        named = [pb.CDIDevice(name="np.example.com/made=a")]
        id = await runtime.run(sandbox, "sleep", "600", name="a", linux=linux(), CDI_devices=named)
        assert await inside(runtime, id, "stat -c '%F %t:%T %a %u:%g' /dev/np-null") == (
            "character special file 1:3 640 0:7\n"
        )
        assert await inside(runtime, id, "head -c 2 /dev/np-zero | wc -c") == "2\n"
        gone = {"cdi.k8s.io/plugin": "np.example.com/made=gone"}
        await refused(
            runtime.create(sandbox, "true", name="gone", annotations=gone),
            'failed to stat CDI host device "/dev/np-gone": no such file or directory',
        )
        await runtime.call("RemoveContainer", container_id=id)
    remove("/dev/np-null", "/dev/np-zero")


@pytest.mark.skipif(not recursive_read_only(), reason="mount_setattr needs Linux 5.12")
async def test_recursive_read_only_reaches_the_mounts_below() -> None:
    async with RuntimeProcess() as runtime:
        features = (await runtime.call("Status")).runtime_handlers[0].features
        assert features.recursive_read_only_mounts
        sandbox = await runtime.sandbox()
        script = "touch /deep/shm/np-$0 2>&1 && echo wrote"
        for name, recursive, expected in (("flat", False, "wrote"), ("deep", True, "Read-only")):
            mount = pb.Mount(host_path="/dev", container_path="/deep", readonly=True, recursive_read_only=recursive)
            id = await runtime.run(
                sandbox, "sh", "-c", script, str(os.getpid()), name=name, linux=linux(), mounts=[mount]
            )
            assert expected in await said(runtime, id)
        remove(f"/dev/shm/np-{os.getpid()}")
        wrong = pb.Mount(host_path="/dev", container_path="/deep", recursive_read_only=True)
        await refused(runtime.create(sandbox, "true", name="w", linux=linux(), mounts=[wrong]), "needs readonly")


def groups_named(name: str) -> list[str]:
    return [path for path, _, _ in os.walk("/sys/fs/cgroup") if os.path.basename(path) == name]


@pytest.mark.skipif(not {"memory", "cpu"} <= limits(), reason="no writable cgroup hierarchy with cpu and memory")
async def test_limits_and_their_changes_are_seen_inside() -> None:
    files = "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null"
    async with RuntimeProcess() as runtime:
        sandbox = await runtime.sandbox()
        asked = linux()
        asked.resources.cpu_shares = 100
        id = await runtime.run(sandbox, "sleep", "600", name="a", linux=asked)
        assert set((await inside(runtime, id, "cut -d: -f3 /proc/self/cgroup | sort -u")).split()) >= {"/"}
        fresh = pb.LinuxContainerResources(memory_limit_in_bytes=64 << 20)
        await runtime.call("UpdateContainerResources", container_id=id, linux=fresh)
        assert await inside(runtime, id, files) == f"{64 << 20}\n"
        assert "Read-only" in await inside(runtime, id, "mkdir /sys/fs/cgroup/memory/x 2>&1 || mkdir /sys/fs/cgroup/x")


@pytest.mark.skipif("memory" not in limits(), reason="no writable cgroup hierarchy with the memory controller")
async def test_first_limit_of_a_running_container_holds_for_commands_and_names_its_end() -> None:
    hog = "read x; exec python3 -c 'x = bytearray(80 << 20)'"
    async with RuntimeProcess() as runtime:
        id = await runtime.run(await runtime.sandbox(), "sh", "-c", hog, stdin=True, linux=linux())
        limit = pb.LinuxContainerResources(memory_limit_in_bytes=48 << 20)
        await runtime.call("UpdateContainerResources", container_id=id, linux=limit)
        await runtime.kill()
        await runtime.start()
        assert id in await inside(runtime, id, "grep -E '^0|memory' /proc/self/cgroup")
        await inside(runtime, id, "echo > /proc/1/fd/0")
        assert ((await runtime.ended(id)).exit_code, (await runtime.status(id)).reason) == (137, "OOMKilled")


@pytest.mark.skipif("memory" not in limits(), reason="no writable cgroup hierarchy with the memory controller")
async def test_pod_limit_holds_for_its_containers_together_and_its_group_goes_with_them() -> None:
    hog = "exec python3 -c 'x = bytearray(80 << 20); import time; time.sleep(60)'"
    parent, nap = f"/kubepods/burstable/pod{os.getpid()}", f"606.{os.getpid()}"
    whole = pb.LinuxContainerResources(memory_limit_in_bytes=48 << 20, unified={"memory.max": str(48 << 20)})
    async with RuntimeProcess() as runtime:
        sandbox = await runtime.sandbox(of_linux={"cgroup_parent": parent, "resources": whole})
        plain = await runtime.run(sandbox, "sleep", nap, name="plain", linux=linux())
        groups = [text_of(f"/proc/{pid}/cgroup") for pid in running("sleep", nap)]
        assert any(f"{parent}/{plain}\n" in f"{group}\n" for group in groups)
        greedy = await runtime.run(sandbox, "sh", "-c", hog, name="greedy", linux=linux())
        assert ((await runtime.ended(greedy)).exit_code, (await runtime.status(greedy)).reason) == (137, "OOMKilled")
        await runtime.call(
            "UpdatePodSandboxResources",
            pod_sandbox_id=sandbox,
            resources=pb.LinuxContainerResources(memory_limit_in_bytes=256 << 20, unified=whole.unified),
        )
        again = await runtime.run(sandbox, "sh", "-c", hog, name="again", linux=linux())
        for _ in range(20):
            assert (await runtime.status(again)).state == pb.CONTAINER_RUNNING
            await asyncio.sleep(0.05)
        await runtime.call("RemovePodSandbox", pod_sandbox_id=sandbox)
        assert groups_named(os.path.basename(parent)) == []
        await refused(runtime.sandbox(of_linux={"cgroup_parent": "/../up"}), "cgroup_parent")


def held_by_parent(pid: int) -> list[str]:
    status = Path(f"/proc/{pid}/status").read_text()
    parent = next(line for line in status.splitlines() if line.startswith("PPid")).split()[1]
    return [os.readlink(entry) for entry in Path(f"/proc/{parent}/fd").iterdir()]


async def test_shim_holds_the_mount_namespace_by_which_it_kills() -> None:
    """The number of a namespace that ended goes to the next one, which may be a container of another runtime."""
    async with RuntimeProcess() as runtime:
        id = await runtime.run(await runtime.sandbox(), "sleep", "60")
        status = await runtime.call("ContainerStatus", container_id=id, verbose=True)
        pid = json.loads(status.info["info"])["pid"]
        assert os.readlink(f"/proc/{pid}/ns/mnt") in held_by_parent(pid)
