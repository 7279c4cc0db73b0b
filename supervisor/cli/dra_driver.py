"""`nodeplane dra-driver`: run the example DRA driver against a node."""

import argparse
import asyncio
import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from protocols.layout import Layout
from supervisor.cli.flags import layout_from
from supervisor.errors import Usage

if TYPE_CHECKING:
    from supervisor.dra_driver.script import DriverScript

LONGEST_NAME = 63
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")
_SCRIPTED = ("driver", "devices", "numa", "partitions", "health_timeout")


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("dra-driver", help="run an example DRA driver", allow_abbrev=False)
    add = parser.add_argument
    add("--driver", default="", metavar="NAME", help="a DNS name, e.g. gpu.example.com")
    add("--devices", type=_count, metavar="N", help="how many devices to offer (1)")
    add("--numa", type=_count, metavar="N", help="spread them over N NUMA nodes (none)")
    add("--partitions", type=_count, metavar="N", help="each may also be given out in N parts, by shared counters (0)")
    add("--health-timeout", type=_count, metavar="S", help="silence that makes a device's health unknown (30)")
    add("--health-file", type=Path, metavar="FILE", help="lines `DEVICE HEALTH [MESSAGE]`, followed as it changes")
    add("--script", type=Path, metavar="FILE", help="YAML: what fails when, and how (see docs/how-to)")
    add("--node-name", default="", metavar="NAME", help="the node (that of ROOT, or the host's name)")
    add("--kubelet-dir", default="", metavar="DIR", help="kubelet directory, if not ROOT/kubelet")
    add("--cdi-dir", default="", metavar="DIR", help="where CDI files are written (ROOT/cdi)")
    add("--kubeconfig", default="", metavar="FILE", help="how to reach the API (ROOT/kubeconfig)")


def run(args: argparse.Namespace) -> int:
    from supervisor.dra_driver.run import run_driver  # gRPC is not loaded for every other command
    from supervisor.dra_driver.types import DriverOptions

    script, layout = _script(args), layout_from(args)
    if len(script.driver) > LONGEST_NAME or not _NAME.fullmatch(script.driver):
        raise Usage(f"--driver {script.driver!r} is not a DNS name, such as gpu.example.com")
    options = DriverOptions(
        driver=script.driver,
        devices=script.devices,
        node=args.node_name or _node_name(layout),
        kubelet=layout.kubelet,
        cdi=Path(args.cdi_dir).absolute() if args.cdi_dir else layout.cdi,
        kubeconfig=Path(args.kubeconfig).absolute() if args.kubeconfig else layout.kubeconfig,
        numa=script.numa,
        partitions=script.partitions,
        health_file=args.health_file.absolute() if args.health_file else None,
        health_timeout=script.health_timeout,
        pid=os.getpid(),
    )
    return asyncio.run(run_driver(options, script, _say))


def _script(args: argparse.Namespace) -> "DriverScript":
    """The script with what the flags say instead; without a script, the flags alone."""
    from supervisor.dra_driver.script import DriverScript
    from supervisor.scripted.reading import read_script

    script = read_script(args.script, DriverScript) if args.script else DriverScript()
    given = {name: getattr(args, name) for name in _SCRIPTED}
    try:
        return msgspec.structs.replace(
            script, **{name: value for name, value in given.items() if value not in (None, "")}
        )
    except ValueError as error:
        raise Usage(str(error)) from None


def _node_name(layout: Layout) -> str:
    from protocols.errors import SettingsInvalid
    from protocols.settings import load_settings

    try:
        return load_settings(layout.settings).node_name
    except SettingsInvalid:
        return socket.gethostname().lower()


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError("must be a whole number")
    return int(text)


def _say(line: str) -> None:
    print(line, flush=True)
