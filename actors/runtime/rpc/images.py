"""ImageService: every image exists, so that nothing here ever needs a registry."""

import asyncio
import os
import time
from pathlib import Path

from actors.runtime.errors import InvalidRequest
from actors.runtime.pods import Pods
from actors.runtime.status import image_id, image_ref
from protocols.wire import cri_pb2 as pb

MOST_PULLED = 1024
"""Names remembered for ListImages."""


class ImageMethods:
    def __init__(self, pods: Pods, directory: Path) -> None:
        self._pods = pods
        self._directory = directory
        self._pulled: dict[str, None] = {}

    async def ListImages(self, request: pb.ListImagesRequest) -> pb.ListImagesResponse:
        """Images that were pulled in this life of the runtime, or that a container names."""
        used = {container.config.image.image.partition("@")[0] for container in self._pods.containers.values()}
        names = sorted(used | self._pulled.keys())
        if wanted := request.filter.image.image:
            names = [name for name in names if wanted in (name, image_id(name), image_ref(name))]
        return pb.ListImagesResponse(images=[_image(name) for name in names])

    async def ImageStatus(self, request: pb.ImageStatusRequest) -> pb.ImageStatusResponse:
        if not request.image.image:
            raise InvalidRequest("image.image is required")
        return pb.ImageStatusResponse(image=_image(request.image.image))

    async def PullImage(self, request: pb.PullImageRequest) -> pb.PullImageResponse:
        name = request.image.image.partition("@")[0]
        if not name:
            raise InvalidRequest("image.image is required")
        self._pulled[name] = None
        if len(self._pulled) > MOST_PULLED:
            del self._pulled[next(iter(self._pulled))]
        return pb.PullImageResponse(image_ref=image_ref(name))

    async def RemoveImage(self, request: pb.RemoveImageRequest) -> pb.RemoveImageResponse:
        self._pulled.pop(request.image.image.partition("@")[0], None)
        return pb.RemoveImageResponse()

    async def ImageFsInfo(self, request: pb.ImageFsInfoRequest) -> pb.ImageFsInfoResponse:
        """The file system of the state directory, as a whole."""
        found = await asyncio.to_thread(os.statvfs, self._directory)
        usage = pb.FilesystemUsage(
            timestamp=time.time_ns(),
            fs_id=pb.FilesystemIdentifier(mountpoint=str(self._directory)),
            used_bytes=pb.UInt64Value(value=(found.f_blocks - found.f_bfree) * found.f_frsize),
            inodes_used=pb.UInt64Value(value=found.f_files - found.f_ffree),
        )
        return pb.ImageFsInfoResponse(image_filesystems=[usage], container_filesystems=[usage])


def _image(name: str) -> pb.Image:
    base = name.partition("@")[0]
    id = name if name.startswith("sha256:") else image_id(base)
    tag = base if ":" in base.rpartition("/")[2] else f"{base}:latest"
    return pb.Image(
        id=id,
        repo_tags=[] if name.startswith("sha256:") else [tag],
        repo_digests=[] if name.startswith("sha256:") else [image_ref(base)],
        size=1,
        spec=pb.ImageSpec(image=name),
        pinned=True,
    )
