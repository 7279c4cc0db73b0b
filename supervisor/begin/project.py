"""Write a project of a device plugin, DRA driver or agent: templates are real files, which work as they stand.

Of their texts only the names in `ProjectNames` are replaced. No file that is there is lost.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import protocols.wire
from protocols.kube.names import subdomain_faults
from protocols.process.files import write_atomic
from protocols.process.texts import listed
from protocols.wire.plugin_names import resource_fault
from supervisor.base.errors import SupervisorError, UsageError

MAX_NAMED = 3


TEMPLATES = Path(__file__).parent / "templates"
PLUGIN, DRIVER, AGENT = "plugin", "dra-driver", "agent"
PYTHON, GO = "python", "go"
PROTOS = {
    (PLUGIN, PYTHON): ("deviceplugin_v1beta1",),
    (DRIVER, PYTHON): ("dra_v1", "pluginregistration_v1"),
    (AGENT, PYTHON): ("podresources_v1",),
    (PLUGIN, GO): ("deviceplugin_v1beta1",),
    (DRIVER, GO): ("dra_v1", "pluginregistration_v1"),
    (AGENT, GO): ("podresources_v1",),
}
"""APIs whose stubs a project builds, by kind and language."""
NAMED_BY = {PLUGIN: "resource", DRIVER: "driver", AGENT: "resource"}
"""The flag that names what a project of a kind is about."""
NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
RESOURCE, DRIVER_NAME = "example.com/gpu", "gpu.example.com"
"""Names in the templates, and the defaults."""
MAX_DRIVER = 63
APIS = {
    "deviceplugin_v1beta1": "device plugins",
    "pluginregistration_v1": "registration by a socket in plugins_registry/: DRA drivers",
    "dra_v1": "DRA drivers",
    "dra_v1beta1": "DRA drivers, the version before",
    "drahealth_v1": "health of a DRA driver's devices",
    "drahealth_v1alpha1": "the same, the version before",
    "nodehealth_v1alpha1": "the same, as KEP-4680 has it",
    "podresources_v1": "agents: lists of pods with their devices, and nodeplane's watches",
    "podresources_v1alpha1": "the same, the version before: lists alone",
    "pods_v1alpha1": "agents: the pods of the node as objects",
}
"""Names of .proto files beside protocols/wire, with who speaks the API. They import no other file."""
FOLDER = Path(protocols.wire.__file__).parent


class FilesExist(SupervisorError, http=409, grpc="ALREADY_EXISTS"):
    """Raised before anything is written when files with other contents would be overwritten."""


def write_files(directory: Path, texts: Mapping[str, str], *, force: bool = False) -> list[Path]:
    """Write texts by path below a directory and return the paths. Raises FilesExist unless `force`."""
    paths = {directory / name: text for name, text in texts.items()}
    others = [path for path, text in paths.items() if path.exists() and not _holds(path, text)]
    if others and not force:
        raise FilesExist(f"{listed([*map(str, others)], MAX_NAMED)} exist with other contents; --force overwrites them")
    for path, text in paths.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text.encode(), 0o644)
    return list(paths)


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == text.encode()


class ProjectNames(NamedTuple):
    """The names of a project."""

    project: str
    resource: str = RESOURCE
    driver: str = DRIVER_NAME

    def put(self, text: str) -> str:
        """Return a text of a template with these names."""
        said = {
            "my-project": self.project,
            RESOURCE: self.resource,
            RESOURCE.replace("/", "-"): self.resource.replace("/", "-"),
            DRIVER_NAME: self.driver,
        }
        return re.sub("|".join(map(re.escape, said)), lambda found: said[found[0]], text)


def names_for(directory: Path, kind: str, resource: str | None, driver: str | None) -> ProjectNames:
    """Return the names of a project in a directory; None where the user gave none. Raises UsageError."""
    for flag, value in (("resource", resource), ("driver", driver)):
        if value is not None and flag != NAMED_BY[kind]:
            raise UsageError(f"--{flag} is not for a project of kind {kind}; its name is --{NAMED_BY[kind]}")
    resource, driver = RESOURCE if resource is None else resource, DRIVER_NAME if driver is None else driver
    name = directory.resolve().name
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} names no project: use lower-case letters, digits and -, such as my-plugin")
    if resource_fault(resource):
        raise UsageError(f"--resource {resource!r} is no DOMAIN/NAME, such as {RESOURCE}")
    if len(driver) > MAX_DRIVER or subdomain_faults(driver):
        raise UsageError(f"--driver {driver!r} is no DNS name, such as {DRIVER_NAME}")
    return ProjectNames(name, resource, driver)


def write_project(kind: str, language: str, directory: Path, names: ProjectNames, *, force: bool = False) -> list[Path]:
    """Return the paths of the files written. Raises FilesExist."""
    texts = {name: names.put(text) for name, text in _template(TEMPLATES / f"{kind}-{language}")}
    texts |= {f"protos/{name}": text for name, text in proto_files(PROTOS[kind, language]).items()}
    return write_files(directory, texts, force=force)


def _template(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield names and texts; caches of tools that somebody ran in the folder are no part of it."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        hidden = name.parts[0].startswith(".") and name.parts[0] not in (".github", ".gitignore")
        if path.is_file() and not hidden and "__pycache__" not in name.parts:
            yield str(name), path.read_text("utf-8")


def proto_files(names: Iterable[str] = APIS) -> dict[str, str]:
    """Return the files' texts by name."""
    return {f"{name}.proto": (FOLDER / f"{name}.proto").read_text("utf-8") for name in names}


def write_protos(directory: Path, *, force: bool = False) -> list[Path]:
    """Return the files in the order of APIS. Raises FilesExist."""
    return write_files(directory, proto_files(), force=force)
