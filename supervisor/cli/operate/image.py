"""`nodeplane image import|alias|ls|rm`: images of the embedded runtime, from archives and directories."""

import argparse
import os

from protocols.messages import runtime as messages
from protocols.messages.runtime import AliasImage, Empty, ImageInfo, Images, ImportImage, RemoveImage
from protocols.process.texts import printable
from supervisor.base.progress import progress
from supervisor.base.terminal import Table, show
from supervisor.cli.flags import layout_from
from supervisor.client.connection import Asking, ask

HEADER = ("IMAGE", "ID", "SIZE")
IMPORT_S, QUICK_S = 600.0, 30.0
SHOWN_DIGITS = 12
MIB = 1024 * 1024


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("image", help="images of the embedded runtime", allow_abbrev=False)
    verbs = parser.add_subparsers(dest="verb", required=True)
    bring = verbs.add_parser("import", help="from a file (OCI layout or docker save) or a directory")
    bring.add_argument("path", metavar="FILE")
    bring.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="NAME",
        help="what to call it; needed where the file does not say; may be repeated",
    )
    alias = verbs.add_parser("alias", help="give an image more names, such as those that a chart uses")
    alias.add_argument("existing", metavar="EXISTING", help="a name or an id of the image")
    alias.add_argument("names", metavar="NEW", nargs="+")
    verbs.add_parser("ls", help="list them")
    remove = verbs.add_parser("rm", help="remove a name, and the image with its last one")
    remove.add_argument("name", metavar="NAME")
    parser.set_defaults(run=_run_image_command)


def _run_image_command(args: argparse.Namespace) -> int:
    if args.verb == "import":
        args.path = os.path.abspath(args.path)  # the runtime has another working directory
    show(ask(layout_from(args), lambda asking: VERBS[args.verb](asking, args)))
    return 0


async def _import_image(asking: Asking, args: argparse.Namespace) -> str:
    request = ImportImage(args.path, tuple(args.name))
    with progress(f"importing {args.path}"):
        image = await asking.call(messages.OWNER, messages.IMPORT_IMAGE, request, ImageInfo, IMPORT_S)
    return _described(image)


async def _alias(asking: Asking, args: argparse.Namespace) -> str:
    request = AliasImage(args.existing, tuple(args.names))
    return _described(await asking.call(messages.OWNER, messages.ALIAS_IMAGE, request, ImageInfo, QUICK_S))


async def _list_images(asking: Asking, args: argparse.Namespace) -> Table | str:
    reply = await asking.call(messages.OWNER, messages.LIST_IMAGES, Empty(), Images, QUICK_S)
    rows = [
        (_short(name) if name else "<none>", _digits(image), f"{image.size / MIB:.1f} MiB")
        for image in reply.images
        for name in image.names or ("",)
    ]
    return Table(HEADER, rows) if rows else "no image was imported yet; try `nodeplane image import FILE`"


async def _remove(asking: Asking, args: argparse.Namespace) -> str:
    await asking.call(messages.OWNER, messages.REMOVE_IMAGE, RemoveImage(args.name), messages.Empty, QUICK_S)
    return f"{args.name} removed"


VERBS = {"import": _import_image, "alias": _alias, "ls": _list_images, "rm": _remove}


def _short(name: str) -> str:
    return name.removeprefix("docker.io/library/").removeprefix("docker.io/")


def _described(image: ImageInfo) -> str:
    return printable(f"{', '.join(map(_short, image.names))}: {image.size / MIB:.1f} MiB, {_digits(image)}")


def _digits(image: ImageInfo) -> str:
    return image.id.removeprefix("sha256:")[:SHOWN_DIGITS]
