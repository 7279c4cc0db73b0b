"""`up --record` and `why --replay` on a real plane: the same reasons as live, no secret, a recorder that is killed."""

import base64
import json
import os
import re
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from protocols.kube.meta import Object
from protocols.kube.times import format_micro
from protocols.messages.objects import stream_of
from protocols.recording import frames
from protocols.recording.reader import Recording
from tests.support.insults import refused
from tests.support.plane import BIN, Plane, until
from tests.support.waiting import saw

GPU = "example.com/gpu"
SECRET, PLAIN = "hunter2-in-a-secret", "hunter3-in-the-pod"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Plane, Path]]:
    path = tmp_path_factory.mktemp("recording") / "plane.npr"
    with Plane("--record", str(path), "--record-limit", "4Mi") as plane:
        yield plane, path


def pod(name: str, *command: str, **container: Any) -> dict[str, Any]:
    main = {"name": "main", "image": "busybox", "command": list(command) or ["sleep", "3600"], **container}
    spec = {"terminationGracePeriodSeconds": 1, "containers": [main]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def why(plane: Plane, target: str, *flags: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(plane.nodeplane("why", target, "-o", "json", *flags))
    return found


def state_of(plane: Plane, target: str, *flags: str) -> str:
    """Return the state, empty for what is not known yet."""
    text = plane.nodeplane("why", target, "-o", "json", *flags, check=False)
    return str(json.loads(text)["state"]) if text else ""


def becomes(plane: Plane, target: str, state: str, *flags: str) -> dict[str, Any]:
    until(f"{target} is {state}", lambda: state_of(plane, target, *flags) == state, 60, every=1.0)
    return why(plane, target, *flags)


def timeless(found: dict[str, Any]) -> str:
    """Return a diagnosis without what grows with its time, and without advice for a plane that runs."""
    found["advice"] = []
    return re.sub(r"\(?[\d.]+ (s|ms|min)\b[^,;]*?( ago)?\)?", "T", json.dumps(found))


def test_replayed_reason_is_the_live_one(recorded: tuple[Plane, Path]) -> None:
    plane, path = recorded
    pods: dict[str, tuple[str, Object]] = {
        "lacks": ("pending", {"resources": {"limits": {GPU: 1}}}),
        "runs": ("running", {}),
        "fails": ("crash loop", {"command": ["sh", "-c", "echo about to fail; exit 3"]}),
    }
    for name, (_, manifest) in pods.items():
        plane.apply(pod(name, **manifest))
    for name, (state, _) in pods.items():
        becomes(plane, f"pod/{name}", state)
    for name in pods:
        until("the reason is replayed as it is", partial(replayed, plane, f"pod/{name}", path), every=1.0)


def replayed(plane: Plane, target: str, path: Path) -> str:
    """Return the live reason if the recording has the same: it is a second behind, and a crash loop goes on."""
    live = timeless(why(plane, target))
    text = plane.nodeplane("why", target, "-o", "json", "--replay", str(path), check=False)
    kept = timeless(json.loads(text)) if text else ""
    saw(f"live {live}\nreplayed {kept}")
    return live if live == kept else ""


def test_plugin_that_came_and_went_is_replayed_at_both_times(recorded: tuple[Plane, Path]) -> None:
    plane, path = recorded
    plugin = plane.plugin(devices=1)
    becomes(plane, f"plugin/{GPU}", "serves")
    until("the recording has it", lambda: serves(path), 20, every=0.5)
    served = format_micro(Recording(path).end_ms / 1e3)
    plugin.kill()
    becomes(plane, f"plugin/{GPU}", "gone", "--replay", str(path))
    assert why(plane, f"plugin/{GPU}", "--replay", str(path), "--at", served)["state"] == "serves"


def serves(path: Path) -> bool:
    found = Recording(path)
    return any(each["connected"] for each in found.state(found.end_ms).get("devices/devices", {}).values())


def test_no_secret_is_recorded(recorded: tuple[Plane, Path]) -> None:
    plane, path = recorded
    secret = {"name": "login"}
    plane.apply({"apiVersion": "v1", "kind": "Secret", "metadata": secret, "stringData": {"password": SECRET}})
    env = [
        {"name": "API_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}}},
        {"name": "PLAIN", "value": PLAIN},
    ]
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(pod("holds-secrets", env=env)))  # with a copy of the manifest
    becomes(plane, "pod/holds-secrets", "running")
    token = plane.kubectl("create", "token", "default").strip()
    stream = stream_of("", "pods")
    until("the pod is recorded", lambda: "default/holds-secrets" in state(path).get(stream, {}), 20, every=0.5)
    content = raw(path)
    for value in (SECRET, PLAIN):
        assert value.encode() not in content
        assert base64.b64encode(value.encode()) not in content
    assert token.encode() not in content
    assert b"-----BEGIN" not in content
    assert not any("secrets" in source or "certificate" in source for source in state(path))
    assert state(path)[stream]["default/holds-secrets"]["spec"]["containers"][0]["env"][1]["value"] == "(hidden)"


def state(path: Path) -> dict[str, dict[str, Any]]:
    found = Recording(path)
    return found.state(found.end_ms)


def raw(path: Path) -> bytes:
    """Return all that is recorded, unpacked."""
    data = path.read_bytes()
    return b"".join(zlib.decompress(data[frame.begin : frame.end]) for frame in frames.frames(memoryview(data)))


def test_recorder_that_is_killed_starts_again_and_appends(recorded: tuple[Plane, Path]) -> None:
    plane, path = recorded
    begin = Recording(path).begin_ms
    plane.kill("recorder")
    until("it records again", lambda: plane.status()["recorder"]["restarts"] == 1 and "actors" in state(path), 30)
    until("it has the pods", lambda: state(path).get(stream_of("", "pods")), 30, every=0.5)
    assert Recording(path).begin_ms == begin


def test_file_that_is_no_recording_is_refused_before_anything_starts() -> None:
    with tempfile.TemporaryDirectory(prefix="npr", dir="/tmp") as place:  # short, for the sockets of a root
        refuses(Path(place))


def refuses(place: Path) -> None:
    notes, root = str(place / "notes"), str(place / "root")
    (place / "notes").write_text("mine")
    for words, reason in (
        (("up", "--record", notes, "--port", "0", "--root", root), "no recording; give another name"),
        (("up", "--record", notes, "--record-limit", "1k", "--port", "0", "--root", root), "use 1Mi to 1Gi"),
        (("why", "pod/a", "--replay", notes), "this is no recording"),
        (("why", "pod/a", "--replay", "nothing"), "No such file"),
        (("why", "pod/a", "--at", "12:00:00"), "give --replay FILE"),
    ):
        code, line = refused(*words)
        assert code == 2
        assert reason in line
    assert (place / "notes").read_text() == "mine"


SCRIPT = "kubectl create -f - </dev/stdin && exit 3"


def test_recording_of_a_failed_test_has_what_happened_last(tmp_path: Path) -> None:
    """The command fails at once: its pod is in the file when `nodeplane test` has ended."""
    done = subprocess.run(
        [BIN / "nodeplane", "test", "--record", "failed.npr", "--logs", "logs", "--", "sh", "-c", SCRIPT],
        cwd=tmp_path,
        env={**os.environ, "NODEPLANE_ROOT": "/nonexistent/root"},
        input=json.dumps(pod("lacks", resources={"limits": {GPU: 1}})),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    path = tmp_path / "failed.npr"
    assert "default/lacks" in state(path)[stream_of("", "pods")]
    words = [str(BIN / "nodeplane"), "why", "pod/lacks", "--replay", "failed.npr", "--root", "/nonexistent/root"]
    found = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout.startswith("pod/default/lacks: pending: ")
