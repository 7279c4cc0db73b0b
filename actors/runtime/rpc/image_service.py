"""Methods of the CRI ImageService, and the image calls of the bus, since CRI has no import.

Imported images have files. Unless only imported ones exist, other names stand for the host's own files.
"""

import asyncio
import os
import time
from pathlib import Path

from actors.runtime.images.store import ImageStore, short_name
from actors.runtime.model.containers import Image
from actors.runtime.model.cri_messages import image_id, image_ref
from actors.runtime.model.errors import InvalidRequest, NotFound
from actors.runtime.model.pods import RuntimePods
from protocols.bounded import BoundedMap
from protocols.bus import Bus, Call
from protocols.messages.runtime import (
    ALIAS_IMAGE,
    IMPORT_IMAGE,
    LIST_IMAGES,
    REMOVE_IMAGE,
    VOLUME_ANNOTATION,
    AliasImage,
    Empty,
    ImageInfo,
    Images,
    ImportImage,
    RemoveImage,
)
from protocols.wire import cri_pb2 as pb

MOST_PULLED = 1024
"""Pulled names retained for ListImages."""


class ImageMethods:
    """The methods by CRI's names."""

    def __init__(self, pods: RuntimePods, images: ImageStore, directory: Path) -> None:
        self._pods = pods
        self._images = images
        self._directory = directory
        self._pulled = BoundedMap[str, None](MOST_PULLED)

    async def ListImages(self, request: pb.ListImagesRequest) -> pb.ListImagesResponse:
        """List imported images, and names that were pulled since the start or that a container has."""
        used = {c.config.image.image.partition("@")[0] for c in self._pods.containers.values() if c.image is None}
        names = sorted(used | self._pulled.keys())
        images = [_imported(image) for image in self._images.all()] + [_virtual(name) for name in names]
        if wanted := request.filter.image.image:
            imported = self._images.find(wanted)
            sought = {wanted, imported.id if imported else image_id(wanted)}
            images = [image for image in images if sought & {image.id, image.spec.image, *image.repo_digests}]
        return pb.ListImagesResponse(images=images)

    async def ImageStatus(self, request: pb.ImageStatusRequest) -> pb.ImageStatusResponse:
        if not request.image.image:
            raise InvalidRequest("image.image is required")
        return pb.ImageStatusResponse(image=self._find(request.image))

    async def PullImage(self, request: pb.PullImageRequest) -> pb.PullImageResponse:
        """Return the reference of a known image; nothing is ever fetched."""
        name = request.image.image.partition("@")[0]
        if not name:
            raise InvalidRequest("image.image is required")
        if image := self._images.find(request.image.image):
            return pb.PullImageResponse(image_ref=image.id)
        if not self._images.exists(name) or VOLUME_ANNOTATION in request.image.annotations:
            raise NotFound(f'image "{name}" was not imported, and no registry is asked: nodeplane image import FILE')
        self._pulled[name] = None
        return pb.PullImageResponse(image_ref=image_ref(name))

    async def RemoveImage(self, request: pb.RemoveImageRequest) -> pb.RemoveImageResponse:
        """Remove an image with all its names; an unknown one is no error. Raises ImageInUse."""
        self._pulled.pop(request.image.image.partition("@")[0], None)
        if image := self._images.find(request.image.image):
            await asyncio.to_thread(self._images.remove, image.id, images_used(self._pods))
        return pb.RemoveImageResponse()

    async def ImageFsInfo(self, request: pb.ImageFsInfoRequest) -> pb.ImageFsInfoResponse:
        """Return the usage of the whole file system of the state directory."""
        stats = await asyncio.to_thread(os.statvfs, self._directory)
        usage = pb.FilesystemUsage(
            timestamp=time.time_ns(),
            fs_id=pb.FilesystemIdentifier(mountpoint=str(self._directory)),
            used_bytes=pb.UInt64Value(value=(stats.f_blocks - stats.f_bfree) * stats.f_frsize),
            inodes_used=pb.UInt64Value(value=stats.f_files - stats.f_ffree),
        )
        return pb.ImageFsInfoResponse(image_filesystems=[usage], container_filesystems=[usage])

    def _find(self, spec: pb.ImageSpec) -> pb.Image | None:
        if image := self._images.find(spec.image):
            return _imported(image)
        virtual = self._images.exists(spec.image) and VOLUME_ANNOTATION not in spec.annotations
        return _virtual(spec.image) if virtual else None


def images_used(pods: RuntimePods) -> set[str]:
    """Return ids of images that containers run, or have as volumes."""
    containers = pods.containers.values()
    run = {container.image.id for container in containers if container.image is not None}
    return run | {mount.image.image for container in containers for mount in container.config.mounts}


def _imported(image: Image) -> pb.Image:
    name, _, _ = image.config.user.partition(":")
    number = pb.Int64Value(value=int(name or "0")) if not name or (name.isdecimal() and len(name) <= 10) else None
    return pb.Image(
        id=image.id,
        repo_tags=[short_name(name) for name in image.names],
        repo_digests=[f"{name.rpartition(':')[0]}@{image.id}" for name in image.names],
        size=max(1, image.size),
        uid=number,
        username="" if number is not None else name,
        spec=pb.ImageSpec(image=image.id),
    )


def _virtual(name: str) -> pb.Image:
    base = name.partition("@")[0]
    id = name if name.startswith("sha256:") else image_id(base)
    tag = base if ":" in base.rpartition("/")[2] else f"{base}:latest"
    return pb.Image(
        id=id,
        repo_tags=[] if name.startswith("sha256:") else [tag],
        repo_digests=[] if name.startswith("sha256:") else [image_ref(base)],
        size=1,
        uid=pb.Int64Value(value=os.geteuid()),
        spec=pb.ImageSpec(image=name),
        pinned=True,
    )


class ImageBusService:
    """Import, list and removal of images on the bus, one change at a time."""

    def __init__(self, images: ImageStore, pods: RuntimePods) -> None:
        self._images = images
        self._pods = pods
        self._turn = asyncio.Lock()

    def serve(self, bus: Bus) -> None:
        bus.serve(IMPORT_IMAGE, ImportImage, self._import)
        bus.serve(ALIAS_IMAGE, AliasImage, self._alias)
        bus.serve(LIST_IMAGES, Empty, self._list)
        bus.serve(REMOVE_IMAGE, RemoveImage, self._remove)

    async def _import(self, request: ImportImage, call: Call) -> ImageInfo:
        async with self._turn:
            return _info(await asyncio.to_thread(self._images.import_, Path(request.path), *request.names))

    async def _alias(self, request: AliasImage, call: Call) -> ImageInfo:
        async with self._turn:
            return _info(await asyncio.to_thread(self._images.alias, request.image, *request.names))

    async def _list(self, request: Empty, call: Call) -> Images:
        return Images(tuple(_info(image) for image in self._images.all()))

    async def _remove(self, request: RemoveImage, call: Call) -> Empty:
        async with self._turn:
            await asyncio.to_thread(self._images.remove, request.name, images_used(self._pods))
        return Empty()


def _info(image: Image) -> ImageInfo:
    return ImageInfo(image.id, image.names, image.size, image.root)
