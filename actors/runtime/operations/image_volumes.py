"""Volumes that are images: their directories, found when a container is created. Blocks."""

import os

from actors.runtime.images.store import ImageStore
from actors.runtime.model.errors import InvalidRequest, NotFound
from protocols.process.beneath import LeadsOut, open_beneath, proc_path
from protocols.wire import cri_pb2 as pb


def resolve_images(config: pb.ContainerConfig, images: ImageStore) -> pb.ContainerConfig:
    """Return the configuration with a host path for every mount of an image. Raises NotFound, InvalidRequest."""
    if not any(mount.HasField("image") for mount in config.mounts):
        return config
    changed = pb.ContainerConfig()
    changed.CopyFrom(config)
    for mount in changed.mounts:
        if mount.HasField("image"):
            _resolve(mount, images)
    return changed


def _resolve(mount: pb.Mount, images: ImageStore) -> None:
    name = mount.image.user_specified_image or mount.image.image
    image = images.find(mount.image.image) or images.find(name)
    if image is None:
        raise NotFound(f'image "{name}" of the volume at {mount.container_path} was not imported')
    mount.host_path = _directory(image.root, mount.image_sub_path, name)
    mount.readonly = True
    mount.image.image, mount.image.user_specified_image = image.id, name


def _directory(root: str, sub_path: str, name: str) -> str:
    """Return the path of a part of an image, whose files never change."""
    top = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = open_beneath(top, sub_path.lstrip("/"))
    except LeadsOut:
        raise InvalidRequest(f'image "{name}": image_sub_path "{sub_path}" leads out of it') from None
    except OSError as error:
        why = os.strerror(error.errno or 0).lower()
        raise NotFound(f'image "{name}": image_sub_path "{sub_path}": {why}') from None
    finally:
        os.close(top)
    try:
        return os.readlink(proc_path(found))
    finally:
        os.close(found)
