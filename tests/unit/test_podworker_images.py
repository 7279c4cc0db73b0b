"""Pull policies, the back-off of failed pulls, and who an image runs as."""

import asyncio

import pytest

from actors.podworker.model.dependencies import ImageFound
from actors.podworker.model.errors import ContainerConfigInvalid, ImageMissing
from actors.podworker.model.types import read_pod
from actors.podworker.pods.containers.images import Images, check_user, is_name, pull_policy
from protocols.bus import NotFound, error_for
from tests.support.podworker_fakes import FakeDependencies, container, pod


@pytest.fixture
def fake(tmp_path):
    """Dependencies of a worker."""
    return FakeDependencies(tmp_path)


def asked(fake, images, times=1, **fields):
    spec = read_pod(pod(container("a", **fields)))

    async def ask():
        return [(await images.ensure(spec, spec.containers[0])).id for _ in range(times)]

    return asyncio.run(ask())[-1]


def reason_of(fake, images, **fields):
    with pytest.raises(ImageMissing) as caught:
        asked(fake, images, **fields)
    return caught.value.reason, str(caught.value)


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("a", "Always"),
        ("a:latest", "Always"),
        ("a:1", "IfNotPresent"),
        ("h:5000/a", "Always"),
        ("a@sha256:0", "IfNotPresent"),
    ],
)
def test_the_policy_by_the_tag(image, policy):
    spec = read_pod(pod({"name": "a", "image": image}))
    assert pull_policy(spec.containers[0]) == policy


def test_never_means_never(fake):
    fake.runtime.absent.add("img:1")
    reason, message = reason_of(fake, Images(fake.deps), imagePullPolicy="Never")
    assert (reason, message) == (
        "ErrImageNeverPull",
        'Container image "img:1" is not present with pull policy of Never',
    )
    assert fake.runtime.calls == []


def test_a_failed_pull_is_not_repeated_at_once_and_ever_later(fake):
    now = [0.0]
    images = Images(fake.deps, lambda: now[0])
    fake.runtime.absent.add("img:1")
    waits = []
    for _ in range(7):
        fake.runtime.fail["pull_image"] = [NotFound("not known")]
        began = now[0]
        while reason_of(fake, images)[0] == "ImagePullBackOff":
            now[0] += 5
        waits.append(now[0] - began)
    assert waits == [0, 10, 20, 40, 80, 160, 300]


def test_events_of_image_pulls(fake):
    images = Images(fake.deps, lambda: 0.0)
    fake.runtime.absent.add("img:1")
    fake.runtime.fail["pull_image"] = [NotFound("not known")]
    reason_of(fake, images)
    assert reason_of(fake, images)[1] == 'Back-off pulling image "img:1": ErrImagePull: not known'
    told = [(kind, reason) for kind, reason, _ in fake.recorder.events]
    assert told == [("Normal", "Pulling"), ("Warning", "Failed"), ("Normal", "BackOff")]


def test_an_image_that_arrives_ends_the_back_off(fake):
    images = Images(fake.deps, lambda: 0.0)
    fake.runtime.absent.add("img:1")
    fake.runtime.fail["pull_image"] = [NotFound("not known")]
    reason_of(fake, images)
    fake.runtime.absent.clear()
    assert asked(fake, images) == "sha256:img:1"
    fake.runtime.absent.add("img:1")
    fake.runtime.fail["pull_image"] = [NotFound("not known")]
    assert reason_of(fake, images)[0] == "ErrImagePull"


@pytest.mark.parametrize(
    ("context", "image", "says"),
    [
        ({"runAsNonRoot": True, "runAsUser": 0}, ImageFound("i", 5), "runAsUser breaks non-root policy"),
        ({"runAsNonRoot": True}, ImageFound("i", 0), "image will run as root"),
        ({"runAsNonRoot": True}, ImageFound("i", 0, "app"), "non-numeric user (app)"),
        ({"runAsNonRoot": True}, ImageFound("i", 5), ""),
        ({"runAsNonRoot": True, "runAsUser": 7}, ImageFound("i", 0), ""),
        ({}, ImageFound("i", 0), ""),
    ],
)
def test_who_must_not_be_root(context, image, says):
    spec = read_pod(pod(container("a", securityContext=context)))
    if not says:
        check_user(spec, spec.containers[0], image)
        return
    with pytest.raises(ContainerConfigInvalid) as caught:
        check_user(spec, spec.containers[0], image)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("busybox", True),
        ("hollow/app:1", True),
        ("registry.k8s.io/a/b_c:v1.2-x@sha256:00ff", True),
        ("localhost:5000/a", True),
        ("sha256:" + "a" * 64, True),
        ("Busybox", False),
        ("a b", False),
        ("", False),
        ("a::b", False),
        ("-a", False),
    ],
)
def test_what_could_be_an_image(name, good):
    assert is_name(name) is good


def test_an_invalid_name_and_a_runtime_that_cannot_check(fake):
    images = Images(fake.deps, lambda: 0.0)
    assert reason_of(fake, images, image="Not A Name")[0] == "InvalidImageName"

    async def broken(name, volume=False):
        raise error_for("UNKNOWN", "store damaged")

    fake.runtime.image = broken
    reason, message = reason_of(fake, images)
    assert (reason, message) == ("ImageInspectError", 'Failed to inspect image "img:1": store damaged')
    assert fake.recorder.reasons() == ["InspectFailed", "InspectFailed"]


def volumes_of(fake, *mounts):
    volumes = [
        {"name": "one", "image": {"reference": "files:1"}},
        {"name": "two", "image": {"reference": "files:2", "pullPolicy": "Never"}},
        {"name": "dir", "emptyDir": {}},
    ]
    raw = container("a", volumeMounts=[{"name": name, "mountPath": f"/{name}"} for name in mounts])
    spec = read_pod(pod(raw, volumes=volumes, securityContext={"runAsNonRoot": True}))
    return asyncio.run(Images(fake.deps).volumes(spec, spec.containers[0]))


def test_volumes_of_a_container_are_the_images_it_mounts(fake):
    assert volumes_of(fake, "dir") == {}
    assert volumes_of(fake, "one", "dir") == {"one": "sha256:files:1"}


@pytest.mark.parametrize(("name", "reason"), [("one", "ErrImagePull"), ("two", "ErrImageNeverPull")])
def test_volume_whose_image_is_missing_has_the_reason_of_its_image(fake, name, reason):
    fake.runtime.absent |= {"files:1", "files:2"}
    fake.runtime.fail["pull_image"] = [NotFound("no such image")]
    with pytest.raises(ImageMissing) as caught:
        volumes_of(fake, name)
    assert caught.value.reason == reason
