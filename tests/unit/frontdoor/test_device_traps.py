"""What others stumbled over on the device side, where no scenario shows it: docs/explanation/device-scenarios.md."""

import ast
import asyncio
import resource
import socket
from pathlib import Path

import pytest

from actors.frontdoor.serving import listener
from protocols.errors import SettingsInvalid
from protocols.lifecycle.devices.status_table import pod_status
from protocols.messages.devices import AllocatedDevice, ContainerAllocation, DeviceHealth, PodAllocation
from protocols.messages.health import health_key, held_by
from protocols.podresources.session import PodWatchSession
from protocols.podresources.types import WatchOptions
from protocols.podresources.watch_state import PodState
from protocols.process.inotify import DirectoryChanges
from protocols.process.sockets import SocketInUse, prepare_socket
from protocols.wire import podresources_v1_pb2 as v1
from protocols.wire.methods import CLIENT_OPTIONS
from tests.support.product import ROOT, product_modules

FORKING = {
    "actors/runtime/shim/launcher.py",
    "actors/runtime/shim/child.py",
    "actors/runtime/shim/holder.py",
    "supervisor/forkserver/client.py",
    "supervisor/forkserver/server.py",
    "supervisor/pki/issuing.py",
    "supervisor/report/console.py",
    "protocols/cel/worker/evaluator.py",
}


def sources() -> dict[str, str]:
    return {str(path.relative_to(ROOT)): path.read_text() for path in product_modules()}


def channels(text: str) -> list[str]:
    """The calls that make a channel without TLS, as they stand there."""
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    return [ast.unparse(node) for node in nodes if ast.unparse(node.func).endswith("insecure_channel")]


def test_what_every_channel_of_ours_says_and_takes() -> None:
    """Traps 1, 31, 32: servers in Rust refuse the default authority, long lists are longer than 4 MiB, and pings on
    unix sockets only offend."""
    options = dict(CLIENT_OPTIONS)
    assert options["grpc.default_authority"] == "localhost"
    assert options["grpc.max_receive_message_length"] == 16 << 20
    assert not [name for name in options if "keepalive" in name]
    made = {path: channels(text) for path, text in sources().items() if "insecure_channel(" in text}
    to_sockets = {path: call for path, each in made.items() for call in each if "unix:" in call}
    assert len(to_sockets) >= 3
    assert not [path for path, call in to_sockets.items() if "CLIENT_OPTIONS" not in call]


def test_nothing_forks_where_grpc_may_have_begun() -> None:
    """Trap 33: processes are made by one that has no gRPC object, or by exec."""
    texts = sources()
    assert {path for path, text in texts.items() if "os.fork()" in text} == FORKING
    assert not [path for path in FORKING if "import grpc" in texts[path]]
    assert not [path for path, text in texts.items() if "preexec_fn" in text or "import multiprocessing" in text]


def test_a_living_socket_is_not_taken_over_and_a_dead_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trap 2: gRPC would unlink it."""
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    path = Path("s")
    with socket.socket(socket.AF_UNIX) as living:
        living.bind(str(path))
        living.listen()
        with pytest.raises(SocketInUse, match="another process serves s"):
            prepare_socket(path)
    prepare_socket(path)
    assert not path.exists()
    path.mkdir()
    with pytest.raises(SettingsInvalid, match="is not a socket"):
        prepare_socket(path)


def test_a_path_that_is_too_long_for_a_socket_is_refused_with_the_limit(tmp_path: Path) -> None:
    """Trap 3."""
    with pytest.raises(SettingsInvalid, match="socket path too long \\(107 bytes at most\\)"):
        prepare_socket(tmp_path / ("x" * 108))


@pytest.mark.parametrize(
    ("limits", "connections"), [((-1, -1), 4096), ((1024, -1), 4096), ((1024, 1024), 256), ((64, 64), 16)]
)
def test_files_limit_the_connections_of_a_socket(
    limits: tuple[int, int], connections: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda kind, raised: None)
    assert listener._raise_file_limit() == connections


def test_one_id_of_two_resources_is_two_devices() -> None:
    """Trap 14: kubelet looks a device up by its id alone."""
    one, other = "example.com/a", "example.com/b"
    held = tuple(AllocatedDevice(resource, "0") for resource in (one, other))
    pod = PodAllocation("u", "ns", "p", (ContainerAllocation("main", devices=held),))
    known = {health_key(one, "0"): DeviceHealth(one, "0", "Unhealthy", "hot")}
    known[health_key(other, "0")] = DeviceHealth(other, "0", "Healthy")
    shown = pod_status("u", held_by(pod), known).containers["main"]
    assert [(item.name, item.resources[0].health) for item in shown] == [(one, "Unhealthy"), (other, "Healthy")]


def test_a_queue_of_the_kernel_that_overflows_is_a_reason_to_look(tmp_path: Path) -> None:
    """Trap 27: what was lost is found by the look, and later changes are heard of as before."""
    here, there = tmp_path / "a", tmp_path / "b"
    here.touch()
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 1 << 16:
        pytest.skip(f"the queue of this machine holds {limit} events")

    async def story() -> None:
        changes = DirectoryChanges()
        try:
            assert changes.watch([tmp_path])
            for _ in range(limit // 4 + 100):  # each of them is two events
                here.rename(there)
                there.rename(here)
            await asyncio.wait_for(changes.wait(), 60)
            while True:  # the rest of the queue
                try:
                    await asyncio.wait_for(changes.wait(), 0.3)
                except TimeoutError:
                    break
            here.unlink()
            await asyncio.wait_for(changes.wait(), 60)
        finally:
            changes.close()

    asyncio.run(story())


def test_actions_of_a_later_document_are_passed_over_and_zero_is_a_word() -> None:
    """Trap 30: ADDED is 0, which is no reason to think that nothing was said."""
    session = PodWatchSession(PodState(), WatchOptions(snapshot=False))
    pod = v1.PodResources(name="p", namespace="ns")
    later = v1.ListAndWatchPodResourcesResponse(uid="u", pod_resources=[pod])
    later.action = 77  # type: ignore[assignment]  # proto3 enums are open
    assert session.message(later) == []
    added = v1.ListAndWatchPodResourcesResponse(uid="u", pod_resources=[pod])
    assert [(event.action.name, event.pod.name) for event in session.message(added)] == [("ADDED", "p")]
