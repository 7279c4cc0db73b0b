"""Find a profile: one that nodeplane brings along, or a file."""

from pathlib import Path

from actors.fleet.profiles.check import check_profile
from actors.fleet.profiles.profile import Profile, read_profile
from protocols.process.scripts import ScriptInvalid


def builtin_files(module: str) -> dict[str, Path]:
    """Return the YAML files in the folder `builtin` beside a module, by their names without the suffix."""
    return {path.stem: path for path in sorted(Path(module).with_name("builtin").glob("*.yaml"))}


def builtin_profiles() -> dict[str, Path]:
    """Return the profiles that come along, by name."""
    return builtin_files(__file__)


def find_profile(text: str, nodes: int | None = None) -> Profile:
    """Read the profile of this name or path, and check it for a number of nodes. Raises ScriptInvalid."""
    found = builtin_profiles()
    path = found.get(text, Path(text))
    if not path.is_file():
        raise ScriptInvalid(f"{text!r} is neither a file nor a profile; there are {', '.join(found)}")
    profile = read_profile(path)
    check_profile(profile, nodes)
    return profile
