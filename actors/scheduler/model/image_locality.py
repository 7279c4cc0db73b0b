"""Upstream's ImageLocality: images that nodes report, and how much of a pod's images a node already has. Pure.

Sizes count by the share of nodes that have the image, so that pods do not all gather where one image happens to be.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from protocols.kinds import views

MEBIBYTE = 2**20
LEAST, MOST_PER_IMAGE = 23 * MEBIBYTE, 1000 * MEBIBYTE
"""Bytes between which images count; the upper bound is for each container."""
IMAGES, NAMES = 50, 10
"""Images of a node, as many as a kubelet reports, and names of each; further ones are skipped."""
FULL = 100


def node_images(status: views.NodeStatus) -> dict[str, int]:
    """Return the sizes in bytes of `status.images`, by name."""
    sizes: dict[str, int] = {}
    for image in (status.get("images") or ())[:IMAGES]:
        size = max(0, int(image.get("sizeBytes") or 0))
        sizes.update((str(name), size) for name in (image.get("names") or ())[:NAMES])
    return sizes


def pod_images(spec: views.PodSpec) -> tuple[str, ...]:
    """Return an image's name for each container and image volume, as nodes report it: with its tag."""
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    volumes = [volume["image"].get("reference") for volume in spec.get("volumes") or () if volume.get("image")]
    names = [container.get("image") for container in containers]
    return tuple(_with_tag(str(name)) for name in (*names, *volumes) if name)


def _with_tag(name: str) -> str:
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


class ImageSpread:
    """Number of nodes that have each image."""

    def __init__(self) -> None:
        self._nodes = Counter[str]()

    def add(self, images: Iterable[str]) -> None:
        self._nodes.update(list(images))  # of a mapping, its values would be added

    def remove(self, images: Iterable[str]) -> None:
        for name in images:
            self._nodes[name] -= 1
            if not self._nodes[name]:
                del self._nodes[name]

    def has_any(self, wanted: Iterable[str]) -> bool:
        return any(name in self._nodes for name in wanted)

    def score(self, wanted: tuple[str, ...], images: Mapping[str, int], nodes: int) -> int:
        """Return 0 to 100 for a node with `images`, one of `nodes`."""
        held = sum(images[name] * self._nodes[name] // nodes for name in wanted if name in images)
        most = MOST_PER_IMAGE * len(wanted)
        return FULL * (min(max(held, LEAST), most) - LEAST) // (most - LEAST) if wanted else 0
