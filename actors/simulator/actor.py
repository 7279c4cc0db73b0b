"""simulator: a device plugin and a DRA driver without hardware, which fail when a script says so.

Processes of their own, started by `nodeplane plugin` and `nodeplane dra-driver` in a terminal or a test. They use
only public protocols (device plugin API, DRA, plugin registration, the Kubernetes API), so they also serve a real
kubelet and are examples to copy for real devices. No supervisor watches them and they use no bus.

Each owns its sockets below the kubelet directory; the driver also owns its CDI files and ResourceSlices. kill -9 leaves
all of these behind: the next start removes dead sockets, takes up the slices and answers claims from their CDI files.
"""

import argparse
import asyncio
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from protocols.errors import SettingsInvalid
from protocols.process.layout import Layout
from protocols.process.settings import load_settings

if TYPE_CHECKING:
    from actors.simulator.driver.script import DriverScript
    from actors.simulator.plugin.script import PluginScript

MAX_DEVICES = 100_000
MAX_NAME_LENGTH = 63
RESOURCE, DRIVER = "example.com/gpu", "gpu.example.com"
"""Names of a plugin and a driver that neither flag nor script gives."""
SCRIPT_HELP = "YAML: what fails when, and how (see docs/how-to); - = standard input"
_DRIVER_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")
_SCRIPT_FLAGS_OF_PLUGIN = ("resource", "devices", "numa")
_SCRIPT_FLAGS_OF_DRIVER = ("driver", "devices", "numa", "partitions", "shared", "attach", "health_timeout")
"""Flags that override a field of the script."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    _add_plugin_parser(subparsers)
    _add_driver_parser(subparsers)


def run(args: argparse.Namespace, layout: Layout) -> int:
    """Run the command until a signal or the end of its script; return the exit code. `layout` is that of the plane."""
    return _run_plugin(args, layout) if args.command == "plugin" else _run_driver(args, layout)


def _add_plugin_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("plugin", help="run an example device plugin", allow_abbrev=False)
    add = parser.add_argument
    add("--resource", default="", metavar="DOMAIN/NAME", help=f"the extended resource ({RESOURCE})")
    add("--devices", type=_device_count, metavar="N", help="how many devices to offer (1)")
    add("--numa", type=_device_count, metavar="N", help="spread them over N NUMA nodes (no topology)")
    add("--kubelet-dir", default="", metavar="DIR", help="kubelet directory, if not ROOT/kubelet")
    add("--health-file", type=Path, metavar="FILE", help="lines `DEVICE HEALTH`, followed as it changes")
    add("--script", type=Path, metavar="FILE", help=SCRIPT_HELP)


def _run_plugin(args: argparse.Namespace, layout: Layout) -> int:
    from actors.simulator.engine.instances import instance_name
    from actors.simulator.plugin.process import run_plugin  # gRPC: --help does without it
    from actors.simulator.plugin.server import PluginOptions

    script = plugin_script(args)
    if not all(script.resource.partition("/")):
        raise SettingsInvalid(f"--resource {script.resource!r} is not DOMAIN/NAME, such as example.com/gpu")
    options = PluginOptions(
        resource=script.resource,
        directory=layout.device_plugins,
        health_file=args.health_file.absolute() if args.health_file else None,
        instance=instance_name(),
    )
    return asyncio.run(run_plugin(options, script, _print))


def plugin_script(args: argparse.Namespace) -> "PluginScript":
    """Return the script; flags override its fields. Raises ScriptInvalid."""
    from actors.simulator.plugin.script import PluginScript
    from protocols.process.scripts import read_script

    script = read_script(args.script, PluginScript) if args.script else PluginScript()
    given = {"resource": script.resource or RESOURCE, **_given(args, _SCRIPT_FLAGS_OF_PLUGIN)}
    return msgspec.structs.replace(script, **given)


def _add_driver_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("dra-driver", help="run an example DRA driver", allow_abbrev=False)
    add = parser.add_argument
    add("--driver", default="", metavar="NAME", help=f"a DNS name ({DRIVER})")
    add("--devices", type=_count, metavar="N", help="how many devices to offer (1)")
    add("--numa", type=_count, metavar="N", help="spread them over N NUMA nodes (none)")
    add("--partitions", type=_count, metavar="N", help="each may also be given out in N parts, by shared counters (0)")
    add(
        "--shared",
        action="store_true",
        default=None,
        help="each may be allocated several times, by parts of its memory",
    )
    add("--attach", type=_count, metavar="S", help="attach each S seconds after its allocation: binding conditions (0)")
    add("--health-timeout", type=_count, metavar="S", help="silence that makes a device's health unknown (30)")
    add("--health-file", type=Path, metavar="FILE", help="lines `DEVICE HEALTH [MESSAGE]`, followed as it changes")
    add("--script", type=Path, metavar="FILE", help=SCRIPT_HELP)
    add("--node-name", default="", metavar="NAME", help="the node (that of ROOT, or the host's name)")
    add("--kubelet-dir", default="", metavar="DIR", help="kubelet directory, if not ROOT/kubelet")
    add("--cdi-dir", default="", metavar="DIR", help="where CDI files are written (ROOT/cdi)")
    add("--kubeconfig", default="", metavar="FILE", help="how to reach the API (the pod's token, or ROOT/kubeconfig)")


def _run_driver(args: argparse.Namespace, layout: Layout) -> int:
    from actors.simulator.driver.options import DriverOptions
    from actors.simulator.driver.process import run_driver  # gRPC: --help does without it
    from actors.simulator.engine.instances import instance_name

    script = driver_script(args)
    if len(script.driver) > MAX_NAME_LENGTH or not _DRIVER_NAME.fullmatch(script.driver):
        raise SettingsInvalid(f"--driver {script.driver!r} is not a DNS name, such as gpu.example.com")
    options = DriverOptions(
        script=script,
        node=args.node_name or _node_name(layout),
        kubelet=layout.kubelet,
        cdi=Path(args.cdi_dir).absolute() if args.cdi_dir else layout.cdi,
        kubeconfig=_kubeconfig(args, layout),
        health_file=args.health_file.absolute() if args.health_file else None,
        instance=instance_name(),
    )
    return asyncio.run(run_driver(options, _print))


def _kubeconfig(args: argparse.Namespace, layout: Layout) -> Path | None:
    """Return the file to reach the API with; None in a pod, which has a token."""
    from protocols.kubeclient.kubeconfig import in_cluster

    if args.kubeconfig:
        return Path(args.kubeconfig).absolute()
    return None if in_cluster("") is not None else layout.kubeconfig


def driver_script(args: argparse.Namespace) -> "DriverScript":
    """Return the script; flags override its fields. Raises ScriptInvalid, SettingsInvalid."""
    from actors.simulator.driver.script import DriverScript
    from protocols.process.scripts import read_script

    script = read_script(args.script, DriverScript) if args.script else DriverScript()
    try:
        given = {"driver": script.driver or DRIVER, **_given(args, _SCRIPT_FLAGS_OF_DRIVER)}
        return msgspec.structs.replace(script, **given)
    except ValueError as error:
        raise SettingsInvalid(str(error)) from None


def _given(args: argparse.Namespace, names: tuple[str, ...]) -> dict[str, object]:
    values = {name: getattr(args, name) for name in names}
    return {name: value for name, value in values.items() if value not in (None, "")}


def _node_name(layout: Layout) -> str:
    try:
        return load_settings(layout.settings).node_name
    except SettingsInvalid:
        return socket.gethostname().lower()


def _device_count(text: str) -> int:
    if not text.isdecimal() or int(text) > MAX_DEVICES:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to {MAX_DEVICES}")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError("must be a whole number")
    return int(text)


def _print(line: str) -> None:
    print(line, flush=True)
