"""`nodeplane plugin`: run the example device plugin against a node's device-plugins directory."""

import argparse
import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from supervisor.cli.flags import layout_from
from supervisor.errors import Usage
from supervisor.plugin.types import PluginOptions

if TYPE_CHECKING:
    from supervisor.plugin.script import PluginScript

MOST = 100_000


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("plugin", help="run an example device plugin", allow_abbrev=False)
    parser.add_argument("--resource", default="", metavar="DOMAIN/NAME", help="e.g. example.com/gpu")
    parser.add_argument("--devices", type=_count, metavar="N", help="how many devices to offer (1)")
    parser.add_argument("--numa", type=_count, metavar="N", help="spread them over N NUMA nodes (no topology)")
    parser.add_argument("--kubelet-dir", default="", metavar="DIR", help="kubelet directory, if not ROOT/kubelet")
    parser.add_argument(
        "--health-file", type=Path, metavar="FILE", help="lines `DEVICE HEALTH`, followed as it changes"
    )
    parser.add_argument("--script", type=Path, metavar="FILE", help="YAML: what fails when, and how (see docs/how-to)")


def run(args: argparse.Namespace) -> int:
    from supervisor.plugin.run import run_plugin  # gRPC is not loaded for every other command

    script = _script(args)
    if not all(script.resource.partition("/")):
        raise Usage(f"--resource {script.resource!r} is not DOMAIN/NAME, such as example.com/gpu")
    options = PluginOptions(
        resource=script.resource,
        directory=layout_from(args).device_plugins,
        health_file=args.health_file.absolute() if args.health_file else None,
        pid=os.getpid(),
    )
    return asyncio.run(run_plugin(options, script, _say))


def _script(args: argparse.Namespace) -> "PluginScript":
    """The script with what the flags say instead; without a script, the flags alone."""
    from supervisor.plugin.script import PluginScript
    from supervisor.scripted.reading import read_script

    script = read_script(args.script, PluginScript) if args.script else PluginScript()
    given = {name: getattr(args, name) for name in ("resource", "devices", "numa")}
    return msgspec.structs.replace(script, **{name: value for name, value in given.items() if value not in (None, "")})


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) > MOST:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to {MOST}")
    return int(text)


def _say(line: str) -> None:
    print(line, flush=True)
