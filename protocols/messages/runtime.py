"""Messages of `runtime`, the embedded container runtime, beside its CRI socket."""

import msgspec

OWNER = "runtime"

STOP_CONTAINERS = "stop_containers"
"""RPC StopContainers -> Empty: answered when all containers, then all sandboxes have ended. None starts afterwards."""


IMPORT_IMAGE = "import_image"
"""RPC ImportImage -> ImageInfo: answered when the image can be used."""

ALIAS_IMAGE = "alias_image"
"""RPC AliasImage -> ImageInfo."""

LIST_IMAGES = "list_images"
"""RPC Empty -> Images: those imported."""

REMOVE_IMAGE = "remove_image"
"""RPC RemoveImage -> Empty."""


class ImportImage(msgspec.Struct, frozen=True):
    """Request to add an image from a local file or directory."""

    path: str
    """An archive (OCI image layout or `docker save`), or a directory that is used in place."""
    names: tuple[str, ...] = ()
    """Empty: as the archive says."""


class AliasImage(msgspec.Struct, frozen=True):
    """Request to give an image more names."""

    image: str
    """A name or an id."""
    names: tuple[str, ...]
    """Names that it gets beside its own; other images lose them."""


class RemoveImage(msgspec.Struct, frozen=True):
    """Request to remove a name of an image; the image goes with its last name."""

    name: str
    """A name, or an id for all its names."""


class ImageInfo(msgspec.Struct, frozen=True):
    """One image of the embedded runtime; `size` in bytes, `root` is the directory of its root filesystem."""

    id: str
    names: tuple[str, ...]
    size: int
    root: str


class Images(msgspec.Struct, frozen=True):
    """Answer to a list of images."""

    images: tuple[ImageInfo, ...]


class StopContainers(msgspec.Struct, frozen=True):
    """Request to stop all containers of the embedded runtime, as `nodeplane down` does."""

    grace_s: float = 10.0
    """Seconds between the stop signal and SIGKILL; 0 kills at once."""


class Empty(msgspec.Struct, frozen=True):
    """Request or answer without content."""


VOLUME_ANNOTATION = "nodeplane.dev/volume"
"""Annotation of an ImageSpec: the image is a volume, so it must have files of its own. Other runtimes ignore it."""
