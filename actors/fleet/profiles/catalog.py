"""Find a profile: one that nodeplane brings along, or a file."""

from pathlib import Path

from actors.fleet.profiles.check import check_profile
from actors.fleet.profiles.profile import Profile, read_profile
from protocols.process.scripts import ScriptInvalid

BUILTIN = Path(__file__).with_name("builtin")
SUFFIX = ".yaml"


def builtin_names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in BUILTIN.glob(f"*{SUFFIX}")))


def find_profile(text: str, nodes: int | None = None) -> Profile:
    """Read the profile of this name or path, and check it for a number of nodes. Raises ScriptInvalid."""
    is_builtin = text in builtin_names()
    path = BUILTIN / f"{text}{SUFFIX}" if is_builtin else Path(text)
    if not is_builtin and not path.is_file():
        raise ScriptInvalid(f"{text!r} is neither a file nor a profile; there are {', '.join(builtin_names())}")
    profile = read_profile(path)
    check_profile(profile, nodes)
    return profile
