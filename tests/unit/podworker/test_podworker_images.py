"""Images of the node: kubelet's limits, retained while the runtime is away."""

import asyncio

import pytest

from actors.podworker.node.images import NodeImages, image_list
from protocols.bus import Unavailable
from protocols.kinds import views
from protocols.lifecycle.node.status import NodeStatusInputs, node_status
from protocols.wire import cri_pb2 as pb
from tests.unit.podworker.test_podworker_node import MACHINE


def image(size: int, *tags: str, digests: int = 0) -> pb.Image:
    return pb.Image(id=f"i{size}", repo_tags=tags, repo_digests=[f"d{at}" for at in range(digests)], size=size)


def test_image_list_has_the_largest_images_with_five_names_each() -> None:
    listed = image_list([image(size, f"t{size}") for size in range(60)])
    assert [each["sizeBytes"] for each in listed] == list(range(59, 9, -1))
    assert image_list([image(1, "a:1", "a:2", digests=4)]) == (
        {"names": ["d0", "d1", "d2", "d3", "a:1"], "sizeBytes": 1},
    )


async def test_images_are_retained_while_the_runtime_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[pb.ListImagesResponse | Exception] = [
        Unavailable("restarting"), pb.ListImagesResponse(images=[image(1, "a:1")]), Unavailable("gone"),
        pb.ListImagesResponse(images=[image(1, "a:1")]), pb.ListImagesResponse(images=[image(2, "b:1")]),
    ]  # fmt: skip
    changes: list[object] = []

    async def ask() -> pb.ListImagesResponse:
        if not answers:
            raise asyncio.CancelledError
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr("actors.podworker.node.images.RETRY_S", 0.0)
    monkeypatch.setattr("actors.podworker.node.images.REFRESH_S", 0.0)
    images = NodeImages(ask, lambda: changes.append(images.known))
    assert images.known is None
    with pytest.raises(asyncio.CancelledError):
        await images.run()
    assert changes == [({"names": ["a:1"], "sizeBytes": 1},), ({"names": ["b:1"], "sizeBytes": 2},)]


def test_status_has_the_images_once_they_are_known() -> None:
    away, none = (NodeStatusInputs("n1", MACHINE, True, images=images) for images in (None, ()))
    before: views.NodeStatus = {"images": [{"names": ["a:1"], "sizeBytes": 1}]}
    assert node_status(away, before, "now")["images"] == before["images"]
    assert "images" not in node_status(away, {}, "now")
    assert node_status(none, before, "now")["images"] == []


def test_size_beyond_the_api_is_the_largest_of_the_api() -> None:
    assert image_list([image(2**64 - 1, "t")])[0]["sizeBytes"] == 2**63 - 1
