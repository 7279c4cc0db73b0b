"""The vocabulary of images."""

import msgspec


class ImageConfig(msgspec.Struct, frozen=True):
    """What an image says of the containers made of it; the part of an OCI image configuration that is honoured."""

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    """NAME=VALUE."""
    working_dir: str = ""
    user: str = ""
    """Name or number, with a group behind a colon or not."""
    stop_signal: str = ""


class Image(msgspec.Struct, frozen=True):
    """File images/ID/image.json."""

    id: str
    """`sha256:` and 64 hex digits: of the configuration, or of a directory's path."""
    names: tuple[str, ...]
    """Full names, as docker.io/library/busybox:latest."""
    root: str
    """Directory with the files."""
    size: int
    """Bytes of the files."""
    config: ImageConfig
    borrowed: bool = False
    """`root` is somebody's directory, used in place: it is not removed with the image."""
