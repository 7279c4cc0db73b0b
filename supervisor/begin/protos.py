"""Write the .proto files of the APIs that device plugins, DRA drivers and agents speak."""

from collections.abc import Iterable
from pathlib import Path

import protocols.wire
from supervisor.begin.files import write_files

APIS = {
    "deviceplugin_v1beta1": "device plugins",
    "pluginregistration_v1": "registration by a socket in plugins_registry/: DRA drivers",
    "dra_v1": "DRA drivers",
    "dra_v1beta1": "DRA drivers, the version before",
    "drahealth_v1": "health of a DRA driver's devices",
    "drahealth_v1alpha1": "the same, the version before",
    "podresources_v1": "agents: lists of pods with their devices, and nodeplane's watches",
    "pods_v1alpha1": "agents: the pods of the node as objects",
}
"""Names of .proto files beside protocols/wire, with who speaks the API. They import no other file."""
FOLDER = Path(protocols.wire.__file__).parent


def proto_files(names: Iterable[str] = APIS) -> dict[str, str]:
    """Return the files' texts by name."""
    return {f"{name}.proto": (FOLDER / f"{name}.proto").read_text() for name in names}


def write_protos(directory: Path, *, force: bool = False) -> list[Path]:
    """Return the files in the order of APIS. Raises FilesExist."""
    return write_files(directory, proto_files(), force=force)
