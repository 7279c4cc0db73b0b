"""What `nodeplane image` asks for, on the bus: CRI has no import."""

import asyncio
from pathlib import Path

from actors.runtime.images.store import ImageStore
from actors.runtime.model.images import Image
from actors.runtime.model.pods import Pods
from protocols.bus import Bus, Call
from protocols.messages.runtime import (
    IMPORT_IMAGE,
    LIST_IMAGES,
    REMOVE_IMAGE,
    Empty,
    ImageInfo,
    Images,
    ImportImage,
    RemoveImage,
)


class ImageDesk:
    """One change at a time."""

    def __init__(self, images: ImageStore, pods: Pods) -> None:
        self._images = images
        self._pods = pods
        self._turn = asyncio.Lock()

    def serve(self, bus: Bus) -> None:
        bus.serve(IMPORT_IMAGE, ImportImage, self._import)
        bus.serve(LIST_IMAGES, Empty, self._list)
        bus.serve(REMOVE_IMAGE, RemoveImage, self._remove)

    async def _import(self, request: ImportImage, call: Call) -> ImageInfo:
        async with self._turn:
            return _info(await asyncio.to_thread(self._images.import_, Path(request.path), request.name))

    async def _list(self, request: Empty, call: Call) -> Images:
        return Images(tuple(_info(image) for image in self._images.all()))

    async def _remove(self, request: RemoveImage, call: Call) -> Empty:
        used = {container.image.id for container in self._pods.containers.values() if container.image is not None}
        async with self._turn:
            await asyncio.to_thread(self._images.remove, request.name, used)
        return Empty()


def _info(image: Image) -> ImageInfo:
    return ImageInfo(image.id, image.names, image.size, image.root)
