"""Images of the node for `status.images`, so that schedulers can prefer nodes that have a pod's images.

Limits are kubelet's: the 50 largest images, 5 names each.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from protocols.errors import NodeplaneError
from protocols.kinds import views
from protocols.wire import cri_pb2

IMAGES, NAMES = 50, 5
LARGEST = 2**63 - 1
"""`sizeBytes` is an int64, a size of CRI a uint64."""
REFRESH_S = 60.0
RETRY_S = 5.0
log = logging.getLogger("podworker")


def image_list(images: "Iterable[cri_pb2.Image]") -> tuple[views.ContainerImage, ...]:
    """Return the entries of `status.images`, the largest first."""
    entries = [
        (min(image.size, LARGEST), (*image.repo_digests, *image.repo_tags)[:NAMES], image.id) for image in images
    ]
    entries.sort(key=lambda each: (-each[0], each[2]))
    return tuple({"names": list(names), "sizeBytes": size} for size, names, _ in entries[:IMAGES])


class NodeImages:
    """Reads the runtime's images each minute; `changed` is called with every new answer."""

    def __init__(
        self, images: "Callable[[], Awaitable[cri_pb2.ListImagesResponse]]", changed: Callable[[], None]
    ) -> None:
        self._images, self._changed = images, changed
        self.known: tuple[views.ContainerImage, ...] | None = None
        """None until the runtime answered: the API's list is retained."""

    async def run(self) -> None:
        while True:
            try:
                images = image_list((await self._images()).images)
            except (NodeplaneError, OSError, TimeoutError) as error:
                log.debug("images not listed error=%s", error)
                await asyncio.sleep(RETRY_S if self.known is None else REFRESH_S)
                continue
            if images != self.known:
                self.known = images
                self._changed()
            await asyncio.sleep(REFRESH_S)
