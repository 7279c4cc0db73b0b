"""Credentials for registries, and the runtime's ways to run pods."""

import asyncio
import base64
import json
import re
from pathlib import Path

import msgspec
import pytest

from actors.podworker.model.errors import ImageMissing
from actors.podworker.pods.containers import pull_records
from actors.podworker.pods.containers.images import Images, credentials
from actors.podworker.pods.containers.pull_records import PullRecords
from protocols.bus import DeadlineExceeded, NotFound, Unavailable, error_for
from protocols.lifecycle.pods.types import read_pod
from protocols.messages.cri import ANSWERED
from protocols.wire import cri_pb2
from tests.support.podworker_fakes import FakeDependencies, container, pod
from tests.support.podworker_scene import Scene, at_work


def secret(**auths: object) -> dict[str, bytes]:
    return {".dockerconfigjson": json.dumps({"auths": {k.replace("__", "."): v for k, v in auths.items()}}).encode()}


def config(places: list[str]) -> dict[str, bytes]:
    return {".dockerconfigjson": json.dumps({"auths": {p: {"username": p, "password": "x"} for p in places}}).encode()}


@pytest.mark.parametrize(
    ("image", "places", "used"),
    [
        ("box", ["https://index.docker.io/v1/", "quay.io"], ["https://index.docker.io/v1/"]),
        ("team/box:1", ["docker.io/team", "docker.io", "docker.io/other"], ["docker.io/team", "docker.io"]),
        ("r.example.com:5000/a/b:1", ["r.example.com", "r.example.com:5000"], ["r.example.com:5000"]),
        ("r.example.com/a/b@sha256:00", ["*.example.com", "r.example.com/a"], ["r.example.com/a", "*.example.com"]),
        ("r.example.com/a/b", ["https://r.example.com/v2/a", "r.example.com/v2/b"], ["https://r.example.com/v2/a"]),
        ("a.r.example.com/b", ["*.example.com", "example.com"], []),
        ("localhost/b", ["localhost", "docker.io"], ["localhost"]),
    ],
)
def test_credentials_are_for_their_registry_and_the_most_exact_go_first(
    image: str, places: list[str], used: list[str]
) -> None:
    assert [auth.username for auth in credentials(image, [config(places)])] == used


def test_every_way_to_write_them() -> None:
    auth = base64.b64encode(b"me:pass:words").decode()
    found = credentials("r.io/b", [{".dockercfg": json.dumps({"https://r.io": {"auth": auth}}).encode()}])
    assert [(a.username, a.password) for a in found] == [("me", "pass:words")]
    for text in (f"{auth[:6]}\n{auth[6:]}\n", auth.rstrip("=")):
        found = credentials("r.io/b", [secret(r__io={"auth": text, "username": "old", "password": "old"})])
        assert [(a.username, a.password) for a in found] == [("me", "pass:words")]
    found = credentials("r.io/b", [secret(r__io={"identitytoken": "t"})])
    assert [(a.username, a.identity_token) for a in found] == [("", "t")]


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"\xff{",
        b"null",
        b"[1]",
        b'"text"',
        b'{"auths": null}',
        b'{"auths": [1]}',
        b'{"auths": {"r.io": 1}}',
        b'{"auths": {"r.io": {"auth": "%%%"}}}',
        b'{"auths": {"r.io": {"auth": "/w=="}}}',
        b'{"auths": {"r.io": {"auth": 7, "username": null}}}',
        b'{"auths": {"": {"password": "x"}}}',
        b'{"r.io": "x", "auths": 3}',
    ],
)
def test_what_is_no_credentials_is_passed_over(junk: bytes) -> None:
    assert credentials("r.io/b", [{".dockerconfigjson": junk, ".dockercfg": junk}]) == []


def pulled(
    fake: FakeDependencies, present: bool = False, policy: str = "IfNotPresent", /, **secrets: dict[str, bytes]
) -> list[str | None]:
    """The image is pulled by a pod with those secrets, on a runtime of its own."""
    deps = msgspec.structs.replace(fake.deps, node_info=msgspec.structs.replace(fake.deps.node_info, embedded=False))
    if not present:
        fake.runtime.absent.add("r.io/b:1")
    for name, data in secrets.items():
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        fake.objects.items[("Secret", name)] = {"metadata": {"name": name}, "data": encoded}
    raw = container("a", "r.io/b:1", imagePullPolicy=policy)
    spec = read_pod(pod(raw, imagePullSecrets=[{"name": "one"}, {"name": "two"}]))
    asyncio.run(Images(deps).ensure(spec, spec.containers[0], cri_pb2.PodSandboxConfig()))
    return [auth.username if auth else None for auth in fake.runtime.auths]


def test_a_pull_takes_the_credentials_the_registry_takes(tmp_path: Path) -> None:
    fake = FakeDependencies(tmp_path)
    fake.runtime.fail["pull_image"] = [error_for("UNKNOWN", "401")]
    one, two = secret(r__io={"username": "one"}), secret(r__io={"username": "two"})
    assert pulled(fake, one=one, two=two) == ["two"]
    text = r'Successfully pulled image "r.io/b:1" in \d+m?s \(\d+m?s including waiting\). Image size: 0 bytes.'
    assert re.fullmatch(text, fake.recorder.events[-1][2])
    assert fake.runtime.count("pull_image") == 2


def test_image_pulled_with_credentials_is_for_pods_that_have_them(tmp_path: Path) -> None:
    """KEP-2535: others pull it again, so that the registry decides; also after a restart, and amid a pull."""
    mine, theirs = secret(r__io={"username": "one"}), secret(r__io={"username": "two"})
    fake = FakeDependencies(tmp_path)
    assert pulled(fake, one=mine) == ["one"]
    for secrets, pulls in (({"one": mine}, []), ({}, [None]), ({"one": mine}, [])):  # public: the registry asks nobody
        fake = FakeDependencies(tmp_path)
        assert pulled(fake, True, **secrets) == pulls
    (tmp_path / "later").mkdir()
    fake = FakeDependencies(tmp_path / "later")
    fake.runtime.fail["pull_image"] = [Unavailable("cri is killed")]
    with pytest.raises(Unavailable):
        pulled(fake, one=mine)
    fake = FakeDependencies(tmp_path / "later")
    fake.runtime.fail["pull_image"] = [error_for("UNKNOWN", "401")]
    with pytest.raises(ImageMissing, match="401"):
        pulled(fake, True, two=theirs)
    with pytest.raises(ImageMissing, match="does not have the proper credentials"):
        pulled(FakeDependencies(tmp_path / "later"), True, "Never")


def test_image_is_for_no_pod_without_credentials_once_its_record_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that cannot be read, or more images than have records, would give a private image to all pods."""
    monkeypatch.setattr(pull_records, "MAX_RECORDS", 1)
    records, auth = PullRecords(tmp_path / "pulls"), cri_pb2.AuthConfig(username="one")
    asyncio.run(records.succeeded("r.io/private", "id-1", auth))
    asyncio.run(records.succeeded("r.io/public", "id-2", None))
    assert records.is_restricted("r.io/private", "id-1")
    assert not records.is_restricted("r.io/preloaded", "id-0"), "the record of the public one went"
    asyncio.run(records.succeeded("r.io/other", "id-3", auth))
    for held in (records, PullRecords(tmp_path / "pulls")):
        assert held.is_restricted("r.io/private", "id-1")
    asyncio.run(records.succeeded("r.io/public", "id-2", None))
    assert not records.is_restricted("r.io/public", "id-2"), "or each of its containers pulls it again"
    (tmp_path / "pulled-images.json").write_bytes(b"\xff")
    assert pulled(FakeDependencies(tmp_path), True) == [None]
    assert pulled(FakeDependencies(tmp_path), True) == []


def test_runtime_that_is_away_says_nothing_about_credentials(tmp_path: Path) -> None:
    fake = FakeDependencies(tmp_path)
    fake.runtime.fail["pull_image"] = [Unavailable("cri is away"), error_for("UNKNOWN", "401")]
    with pytest.raises(Unavailable):
        pulled(fake, one=secret(r__io={"username": "one"}), two=secret(r__io={"username": "two"}))
    assert fake.runtime.count("pull_image") == 1


def test_a_missing_secret_is_reported_and_the_pull_goes_on(tmp_path: Path) -> None:
    fake = FakeDependencies(tmp_path)
    assert pulled(fake, two=secret(quay__io={"username": "two"})) == [None]
    text = "Unable to retrieve some image pull secrets (one); attempting to pull the image may not succeed."
    assert ("Warning", "FailedToRetrieveImagePullSecret", text) in fake.recorder.events


def test_all_refused_is_a_pull_that_failed(tmp_path: Path) -> None:
    fake = FakeDependencies(tmp_path)
    fake.runtime.fail["pull_image"] = [error_for("UNKNOWN", "401"), NotFound("no such image")]
    with pytest.raises(ImageMissing, match="no such image"):
        pulled(fake, one=secret(r__io={"username": "one"}), two=secret(r__io={"username": "two"}))


def test_registry_that_does_not_answer_is_a_pull_that_failed(tmp_path: Path) -> None:
    """containerd answers DEADLINE_EXCEEDED for it, as cri does for a runtime that does not answer."""
    text = "failed to pull and unpack image: dial tcp 192.0.2.1:443: i/o timeout"
    fake = FakeDependencies(tmp_path)
    fake.runtime.fail["pull_image"] = [error_for("DEADLINE_EXCEEDED", text, {ANSWERED: "true"})]
    with pytest.raises(ImageMissing, match=text):
        pulled(fake, one=secret(r__io={"username": "one"}))
    assert fake.recorder.reasons()[-1] == "Failed"
    fake.runtime.fail["pull_image"] = [error_for("DEADLINE_EXCEEDED", "the runtime did not answer PullImage in time")]
    with pytest.raises(DeadlineExceeded):
        pulled(fake, one=secret(r__io={"username": "one"}))


def test_reasons_of_cri_for_a_failed_pull_are_those_of_the_container(tmp_path: Path) -> None:
    fake = FakeDependencies(tmp_path)
    fake.runtime.fail["pull_image"] = [error_for("UNKNOWN", "RegistryUnavailable: 503")]
    text = "image pull failed for r.io/b:1 because the registry is unavailable: 503"
    with pytest.raises(ImageMissing, match=f"^{text}$") as failed:
        pulled(fake)
    assert failed.value.reason == "RegistryUnavailable"
    assert fake.recorder.events[-1][2] == 'Failed to pull image "r.io/b:1": RegistryUnavailable: 503'


async def test_a_pod_runs_by_the_handler_of_its_class(tmp_path: Path) -> None:
    scene = Scene(tmp_path, pod(runtimeClassName="small"))
    scene.fake.objects.items[("RuntimeClass", "small")] = {"metadata": {"name": "small"}, "handler": "vm"}
    async with at_work(scene):
        await scene.running()
        assert scene.fake.runtime.handler == "vm"


async def test_a_class_that_is_not_there_is_said_and_waited_for(tmp_path: Path) -> None:
    scene = Scene(tmp_path, pod(runtimeClassName="gone"))
    async with at_work(scene):
        text = 'Failed to create pod sandbox: RuntimeClass "gone" not found'
        event = ("Warning", "FailedCreatePodSandBox", text)
        await scene.until(lambda: event in scene.fake.recorder.events)
        assert not scene.fake.runtime.count("run_sandbox")
        scene.fake.objects.items[("RuntimeClass", "gone")] = {"metadata": {"name": "gone"}, "handler": ""}
        scene.worker.retry()
        await scene.running()
