"""subPath on a real plane: a volume whose directories and links change places meanwhile, and what is left of mounts."""

from pathlib import Path

import pytest

from actors.runtime.spec.isolation import namespaces_allowed
from protocols.kube.meta import Object
from protocols.process.mountinfo import mounts_below
from tests.support.exchanging import exchanging
from tests.support.mistreat import hit, replaced
from tests.support.plane import Plane, until
from tests.support.shared_fixtures import whole_plane

pytestmark = pytest.mark.skipif(not namespaces_allowed(), reason="needs root with CAP_SYS_ADMIN: mounts")
PODS, CONTAINERS = 6, 3

plane = whole_plane


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A volume with a file, a directory and links out of it."""
    (tmp_path / "volume" / "d").mkdir(parents=True)
    (tmp_path / "volume" / "d" / "file").write_text("mine\n")
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "file").write_text("the host's\n")
    (tmp_path / "volume" / "l").symlink_to("../host")
    return tmp_path / "volume"


def pod(name: str, volume: Path, part: str, command: str, containers: int = 1) -> Object:
    mount = {"name": "v", "mountPath": str(volume.parent / "at"), "subPath": part}
    made = [
        {"name": f"c{number}", "image": "busybox", "command": ["sh", "-c", command], "volumeMounts": [mount]}
        for number in range(containers)
    ]
    spec = {
        "restartPolicy": "OnFailure",
        "terminationGracePeriodSeconds": 0,
        "containers": made,
        "volumes": [{"name": "v", "hostPath": {"path": str(volume)}}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"race": "yes"}}, "spec": spec}


def bound(plane: Plane) -> list[str]:
    return mounts_below(plane.root / "pods")


def told(plane: Plane) -> list[str]:
    """Output of the containers that were started: the others found the link and were not."""
    every = ("-l", "race=yes", "--all-containers", "--tail=-1", "--max-log-requests=64", "--ignore-errors")
    return [line for line in plane.kubectl("logs", *every, check=False).splitlines() if line in ("mine", "the host's")]


def test_a_directory_exchanged_with_a_link_while_containers_start_shows_no_file_of_the_host(
    plane: Plane, volume: Path
) -> None:
    place = volume.parent / "at"
    names = [f"racer-{number}" for number in range(PODS)]
    pods = [pod(name, volume, "d", f"cat {place}/file", CONTAINERS) for name in names]
    with exchanging(volume / "d", volume / "l"):
        plane.apply({"apiVersion": "v1", "kind": "List", "items": pods})
        until("containers that started meanwhile", lambda: len(told(plane)) >= PODS, every=0.2)
    assert set(told(plane)) == {"mine"}
    plane.delete("pod", *names)
    until("no mount is left", lambda: not bound(plane))
    assert [path.name for path in (volume.parent / "host").iterdir()] == ["file"], "nothing was made there"


def test_mounts_of_a_killed_podworker_go_with_the_pod_and_leave_the_volume_whole(plane: Plane, volume: Path) -> None:
    plane.apply(pod("stays", volume, "made/here", f"touch {volume.parent}/at/written; sleep 600"))
    plane.pod_ready("stays")
    until("what it wrote", (volume / "made" / "here" / "written").exists)
    assert len(bound(plane)) == 1
    replaced(plane, hit(plane, "podworker"))
    assert len(bound(plane)) == 1
    plane.delete("pod", "stays")
    until("no mount is left", lambda: not bound(plane))
    until("its directory is gone", lambda: not list((plane.root / "pods").iterdir()))
    assert sorted(path.name for path in volume.rglob("*")) == ["d", "file", "here", "l", "made", "written"]
