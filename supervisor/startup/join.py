"""Prepare a node without a control plane: it joins another plane, or is a further node of the plane on this machine."""

import contextlib
import ipaddress
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from protocols.process.files import write_atomic
from protocols.process.layout import Layout
from protocols.process.settings import Settings, save_settings
from supervisor.base.errors import AlreadyRunning, UsageError
from supervisor.base.groups import NODE, children
from supervisor.base.options import PlaneOptions, layout_of
from supervisor.base.settings import settings_of, shape_of
from supervisor.pki import foreign_kubeconfig, node_config
from supervisor.pki.node_config import NodeConfig, NodeConfigInvalid
from supervisor.root import leftovers
from supervisor.root.directories import make_directories
from supervisor.root.lock import SupervisorLocks
from supervisor.startup.prepared import Prepared, SettingsLock

MAX_FILE_BYTES = 1 << 20
LOOPBACK = "127.0.0.1"


def prepare_joined(options: PlaneOptions, group: str, name: str) -> Prepared:
    """Prepare a node by the file of `nodeplane node-config`. Raises SupervisorError, and then holds no lock."""
    where = layout_of(options)
    _check_flags(options, group, where)
    from supervisor.startup import preflight

    config = read_node_config(Path(options.join) if options.join else where.node_kubeconfig, options.node_ip)
    if options.node_name and options.node_name != config.node:
        raise UsageError(f"--node-name {options.node_name}, but the file is for node {config.node}; give one of them")
    named = msgspec.structs.replace(options, node_name=config.node)
    settings = settings_of(named, urlsplit(config.server).port or 443)
    warning = preflight.check(config, _own_id(where))
    if warning:
        print(f"nodeplane: {warning}", file=sys.stderr, flush=True)
    return prepare_node(joined_settings(settings, config), name, lambda: write_node_files(where, config))


def prepare_node(settings: Settings, name: str, write_files: Callable[[], None]) -> Prepared:
    """Prepare a node group with a root of its own. `write_files` writes its certificates, under the lock."""
    where = settings.layout
    where.check_socket_paths()
    make_directories(where)
    with ExitStack() as undo:
        with SettingsLock(where.run):
            held = SupervisorLocks(where.run, name)
            undo.callback(held.release)
            write_files()
            save_settings(where.settings, settings)
        specs = children(shape_of(settings, (NODE,), 1))
        living = leftovers.wait_released(where.run, [name, *(spec.instance for spec in specs)])
        if living:
            raise AlreadyRunning(f"{', '.join(living)} already runs below {where.root}; end it or use another --root")
        leftovers.clean(where.run)
        undo.pop_all()
    return Prepared(name, NODE, settings, specs, held, None, where.settings)


def joined_settings(settings: Settings, found: NodeConfig) -> Settings:
    """Return the settings of a node of the API in `found`, based on its flags or its plane."""
    parts = urlsplit(found.server)
    return msgspec.structs.replace(
        settings,
        node_name=found.node,
        node_ip=settings.node_ip or found.address or address_towards(parts.hostname or "", parts.port or 443),
        joined=True,
        port=parts.port or 443,
        api_url=found.server,
    )


def address_towards(host: str, port: int) -> str:
    """Return our address towards another machine; "" if it is this machine. Sends nothing."""
    try:
        targets = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except OSError:
        return ""
    for family, kind, _, _, target in targets:
        with contextlib.suppress(OSError), socket.socket(family, kind) as probe:  # a family without a route
            probe.connect(target)
            address = str(probe.getsockname()[0])
            return "" if ipaddress.ip_address(address).is_loopback else address
    return ""


def read_node_config(path: Path, node_ip: str = "") -> NodeConfig:
    """Read the file of a node, or a kubelet's kubeconfig of any other API. Raises NodeConfigInvalid."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES)
    except OSError as error:
        raise NodeConfigInvalid(f"cannot read {path}: {error.strerror}; {node_config.MEND}") from None
    if node_config.is_foreign(data, str(path)):
        data = foreign_kubeconfig.made(path, own_address(data, str(path), node_ip))
    return node_config.read(data, str(path))


def own_address(data: bytes, where: str, node_ip: str) -> str:
    """Return the address at which the API of a kubeconfig reaches this node. Raises NodeConfigInvalid."""
    server = str(node_config.parsed(data, where).cluster.get("server", ""))
    try:
        parts = urlsplit(server)
        return node_ip or address_towards(parts.hostname or "", parts.port or 443) or LOOPBACK
    except ValueError as error:
        raise NodeConfigInvalid(f"{where} has no usable server {server!r}: {error}; {node_config.MEND}") from None


def write_node_files(where: Layout, what: NodeConfig) -> None:
    """Write certificates, then the node file: a start that was interrupted finds the old file or none."""
    where.pki.mkdir(mode=0o700, parents=True, exist_ok=True)
    where.pki.chmod(0o700)
    write_atomic(where.ca_cert, what.ca, 0o644)
    for user, pair in (("podworker", what.client), ("health", what.client), ("node-serving", what.serving)):
        certificate, key = where.client_cert(user)
        write_atomic(key, pair.key, 0o600)
        write_atomic(certificate, pair.certificate, 0o644)
    text = node_config.write(what).encode()
    write_atomic(where.kubeconfig, text, 0o600)
    write_atomic(where.node_kubeconfig, text, 0o600)


def _check_flags(options: PlaneOptions, group: str, where: Layout) -> None:
    if group not in ("", NODE):
        raise UsageError(f"{where.root} is a node of another plane, it has no {group} group; use another --root")
    if options.record:
        raise UsageError("--record: a node that joins is not recorded; give the flag to the plane that it joins")
    if options.nodes != 1:
        raise UsageError("--nodes needs the plane's own CA; let each node join with a file of its own")
    if (where.pki / "ca.key").exists():
        raise UsageError(f"{where.root} has a plane of its own, which a node that joins has not; use another --root")


def _own_id(where: Layout) -> str:
    try:
        return where.node_id.read_text().strip()
    except OSError:
        return ""
