"""What is left of a sandbox after an operation on it fails."""

import asyncio
import threading
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import msgspec
import pytest

from actors.runtime.backends.holders import Holders
from actors.runtime.backends.hollow import HollowBackend
from actors.runtime.images.store import ImageStore
from actors.runtime.model.containers import Container, ContainerRecord, ContainerState, SandboxRecord
from actors.runtime.model.errors import InvalidRequest, LauncherGone, NotFound, StateNotWritten
from actors.runtime.model.pods import Clock, RuntimePods
from actors.runtime.operations import sandboxes as operations
from actors.runtime.operations.adoption import Adoption
from actors.runtime.operations.cdi_devices import CdiFiles
from actors.runtime.operations.containers import Containers, Dependencies
from actors.runtime.operations.host_paths import MountPoints
from actors.runtime.operations.sandboxes import Sandboxes
from actors.runtime.rpc.image_service import images_used
from actors.runtime.state.container_events import ContainerEvents
from actors.runtime.state.directory import StateDirectory
from actors.runtime.state.lifecycle import Lifecycle
from protocols.wire import cri_pb2 as pb

CONFIG = pb.PodSandboxConfig(metadata=pb.PodSandboxMetadata(name="p", namespace="ns", uid="u"))


class Runtime:
    """Sandboxes and simulated containers on a directory; no process can be started."""

    def __init__(self, directory: Path) -> None:
        self.pods, clock, self.state = RuntimePods(), Clock(), StateDirectory(directory)
        events = ContainerEvents(clock, 8)
        launcher = Mock()
        launcher.launch_holder.side_effect = LauncherGone("gone")
        self.holders = Holders(launcher, self.state)
        self.processes: Any = Mock(holders=self.holders, cgroups=Mock(unified=True))
        self.dependencies = Dependencies(
            pods=self.pods,
            state=self.state,
            events=events,
            clock=clock,
            processes=self.processes,
            hollow=HollowBackend(Lifecycle(events), self.state),
            images=ImageStore(directory / "images"),
            cdi=CdiFiles([]),
            mount_points=MountPoints(directory),
        )
        self.containers = Containers(self.dependencies)
        self.sandboxes = Sandboxes(self.dependencies, self.containers)


async def test_stop_ends_containers_of_a_sandbox_that_lost_its_namespaces(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path)
    id = await runtime.sandboxes.run(CONFIG, "")
    config = pb.ContainerConfig(metadata=pb.ContainerMetadata(name="c"), image=pb.ImageSpec(image="hollow/c"))
    container = runtime.pods.container(await runtime.containers.create(id, config))
    await runtime.containers.start(container.id)
    runtime.holders.on_lost(runtime.pods.sandbox(id))
    states = [container.life.state]
    await runtime.sandboxes.stop(id)
    states.append(container.life.state)
    assert states == [ContainerState.RUNNING, ContainerState.EXITED]


async def test_user_namespace_that_a_pod_would_not_get_is_an_error(tmp_path: Path) -> None:
    own, config = pb.UserNamespace(mode=pb.POD, uids=[pb.IDMapping(host_id=65536, length=65536)]), pb.PodSandboxConfig()
    config.CopyFrom(CONFIG)
    config.linux.security_context.namespace_options.userns_options.CopyFrom(own)
    with pytest.raises(InvalidRequest, match="user namespace"):
        await Runtime(tmp_path).sandboxes.run(config, "")
    config.linux.security_context.namespace_options.userns_options.mode = pb.NODE
    assert await Runtime(tmp_path).sandboxes.run(config, "")


@pytest.mark.parametrize("recorded", ["", None, "sha256:gone"])
async def test_container_retains_its_image_whichever_has_the_name_later(tmp_path: Path, recorded: str | None) -> None:
    before = Runtime(tmp_path)
    pod = await before.sandboxes.run(CONFIG, "")
    config = pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name="c"), image=pb.ImageSpec(image="box"), command=["true"]
    )
    made = before.pods.container(await before.containers.create(pod, config)).record
    assert made.image == ""
    before.state.save(msgspec.structs.replace(made, image=recorded))
    before.dependencies.images.load()
    later = before.dependencies.images.import_(tmp_path, "box")
    after = Runtime(tmp_path)
    after.processes.adopt = AsyncMock()
    await Adoption(after.dependencies).run()
    image = after.pods.container(made.id).image
    assert (image and image.id) == {"": None, None: later.id}.get(recorded, recorded)


async def test_update_that_is_not_on_disk_has_changed_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime(tmp_path)
    id = await runtime.sandboxes.run(CONFIG, "")
    before = runtime.pods.sandbox(id).record
    monkeypatch.setattr(runtime.state, "save", Mock(side_effect=StateNotWritten("full")))
    with pytest.raises(StateNotWritten):
        await runtime.sandboxes.update(id, pb.LinuxContainerResources(cpu_shares=512))
    assert runtime.pods.sandbox(id).record is before
    assert runtime.pods.sandbox(id).config.linux.resources.cpu_shares == 0


async def test_sandbox_whose_namespaces_cannot_be_made_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "kernel_paths", lambda sysctls: {"kernel/sem": "1"})
    runtime = Runtime(tmp_path)
    with pytest.raises(LauncherGone):
        await runtime.sandboxes.run(CONFIG, "")
    assert runtime.holders._locks == {}
    assert runtime.state.load() == ([], [])


class HeldSave:
    """Stands for `StateDirectory.save`: the writes of threads wait until `go` is set."""

    def __init__(self, state: StateDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
        self._save, self.began, self.go = state.save, threading.Event(), threading.Event()
        monkeypatch.setattr(state, "save", self)

    def __call__(self, record: SandboxRecord | ContainerRecord, durable: bool = True) -> None:
        if durable:
            self.began.set()
            assert self.go.wait(30)
        self._save(record, durable)


async def test_sandbox_removed_during_an_update_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime(tmp_path)
    id = await runtime.sandboxes.run(CONFIG, "")
    held = HeldSave(runtime.state, monkeypatch)
    update = asyncio.create_task(runtime.sandboxes.update(id, pb.LinuxContainerResources(cpu_shares=512)))
    await asyncio.to_thread(held.began.wait, 30)
    removal = asyncio.create_task(runtime.sandboxes.remove(id))
    await asyncio.wait([removal], timeout=0.2)
    held.go.set()
    await asyncio.gather(update, removal)
    assert runtime.state.load() == ([], [])


async def test_sandbox_stopped_during_an_update_is_stopped_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Runtime(tmp_path)
    id = await runtime.sandboxes.run(CONFIG, "")
    held = HeldSave(runtime.state, monkeypatch)
    update = asyncio.create_task(runtime.sandboxes.update(id, pb.LinuxContainerResources(cpu_shares=512)))
    await asyncio.to_thread(held.began.wait, 30)
    await runtime.sandboxes.stop(id)
    held.go.set()
    await update
    assert runtime.state.load()[0] == [runtime.pods.sandbox(id).record]
    assert runtime.pods.sandbox(id).record.stopped_at


async def test_container_removed_during_an_update_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Runtime(tmp_path)
    pod = await runtime.sandboxes.run(CONFIG, "")
    config = pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name="c"), image=pb.ImageSpec(image="b"), command=["true"]
    )
    id = await runtime.containers.create(pod, config)
    runtime.processes.forget = AsyncMock()
    held = HeldSave(runtime.state, monkeypatch)
    update = asyncio.create_task(runtime.containers.update(id, pb.LinuxContainerResources(cpu_shares=512)))
    await asyncio.to_thread(held.began.wait, 30)
    removal = asyncio.create_task(runtime.containers.remove(id))
    await asyncio.wait([removal], timeout=0.2)
    held.go.set()
    await asyncio.gather(update, removal)
    assert runtime.state.load()[1] == []


def container_of(image: str, *mounts: pb.Mount) -> pb.ContainerConfig:
    metadata, spec = pb.ContainerMetadata(name="c"), pb.ImageSpec(image=image)
    return pb.ContainerConfig(metadata=metadata, image=spec, command=["true"], mounts=mounts)


async def test_container_removed_during_its_creation_holds_no_mount_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Runtime(tmp_path)
    runtime.processes.forget = AsyncMock()
    points, began, go = runtime.dependencies.mount_points, threading.Event(), threading.Event()
    claim = points.claim

    def held(container: Container) -> None:
        began.set()
        assert go.wait(30)
        claim(container)

    monkeypatch.setattr(points, "claim", held)
    config = container_of("b", pb.Mount(container_path=f"{tmp_path}/made", host_path=str(tmp_path)))
    creation = asyncio.create_task(runtime.containers.create(await runtime.sandboxes.run(CONFIG, ""), config))
    await asyncio.to_thread(began.wait, 30)
    removal = asyncio.create_task(runtime.containers.remove(next(iter(runtime.pods.containers))))
    await asyncio.wait([removal], timeout=0.2)
    go.set()
    await asyncio.gather(creation, removal)
    assert (points._held, points._made) == ({}, set())


@pytest.mark.parametrize("volume", [False, True])
async def test_container_is_not_created_without_an_image_removed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, volume: bool
) -> None:
    runtime = Runtime(tmp_path)
    images = runtime.dependencies.images
    images.load()
    image = images.import_(tmp_path, "box")
    mount = pb.Mount(container_path="/v", image=pb.ImageSpec(image="box"))
    config = container_of("host", mount) if volume else container_of("box")
    pod = await runtime.sandboxes.run(CONFIG, "")
    held = HeldSave(runtime.state, monkeypatch)
    creation = asyncio.create_task(runtime.containers.create(pod, config))
    await asyncio.to_thread(held.began.wait, 30)
    images.remove(image.id, images_used(runtime.pods))
    held.go.set()
    with pytest.raises(NotFound, match="removed"):
        await creation
    assert runtime.state.load()[1] == []
