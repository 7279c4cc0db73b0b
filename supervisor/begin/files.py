"""Write files that a user goes on with, without losing one that is there."""

from collections.abc import Mapping
from pathlib import Path

from protocols.process.files import write_atomic
from supervisor.base.errors import SupervisorError

MAX_NAMED = 3


class FilesExist(SupervisorError, http=409, grpc="ALREADY_EXISTS"):
    """Raised before anything is written when files with other contents would be overwritten."""


def write_files(directory: Path, texts: Mapping[str, str], *, force: bool = False) -> list[Path]:
    """Write texts by path below a directory and return the paths. Raises FilesExist unless `force`."""
    paths = {directory / name: text for name, text in texts.items()}
    others = [path for path, text in paths.items() if path.exists() and not _holds(path, text)]
    if others and not force:
        named = ", ".join(str(path) for path in others[:MAX_NAMED])
        more = f" and {len(others) - MAX_NAMED} more" if len(others) > MAX_NAMED else ""
        raise FilesExist(f"{named}{more} exist with other contents; --force overwrites them")
    for path, text in paths.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text.encode(), 0o644)
    return list(paths)


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == text.encode()
