"""Answers to Allocate: environment, mounts, device nodes and CDI devices of containers."""

import asyncio
import os
import stat
from collections.abc import Iterable, Iterator

from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from supervisor.conform.cdi import QUALIFIED, check_declared, faults_in, is_device, names_of
from supervisor.conform.peer import PluginPeer
from supervisor.conform.scripts import check, run, several
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import Failed, NotApplicable


@check
async def environment(plugin: PluginPeer) -> None:
    """Look at the answers for single devices."""
    variables = {name: value for answer in await plugin.answers() for name, value in answer.envs.items()}
    if not variables:
        raise NotApplicable("the answer has no variables")
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name + value:
            raise Failed(f"the variable {name!r} cannot be set")


@check
async def mounts(plugin: PluginPeer) -> None:
    """Look at the answers for single devices, and at that for all."""
    mounts = [mount for answer in await plugin.all_answers() for mount in answer.mounts]
    if not mounts:
        raise NotApplicable("the answer has no mounts")
    if faults := [fault for mount in mounts for fault in _faults_of(mount)]:
        raise Failed(several(faults))


def _faults_of(mount: pb.Mount) -> Iterator[str]:
    if not os.path.isabs(mount.container_path):
        yield f"container_path {mount.container_path!r} is not absolute"
    if not os.path.isabs(mount.host_path):
        yield f"host_path {mount.host_path!r} is not absolute"
    elif not os.path.exists(mount.host_path):
        yield f"{mount.host_path} does not exist"


@check
async def device_nodes(plugin: PluginPeer) -> None:
    """Look at the answers for single devices, and at that for all."""
    nodes = [node for answer in await plugin.all_answers() for node in answer.devices]
    if not nodes:
        raise NotApplicable("the answer has no device nodes")
    if faults := [fault for node in nodes for fault in _device_nodes_faults_of(node)]:
        raise Failed(several(faults))


def _device_nodes_faults_of(node: pb.DeviceSpec) -> Iterator[str]:
    for path in (node.container_path, node.host_path):
        if not os.path.isabs(path):
            yield f"the path {path!r} is not absolute"
    if os.path.isabs(node.host_path):
        yield from _host_faults(node.host_path)
    if not node.permissions or set(node.permissions) - set("rwm"):
        yield f"the permissions of {node.host_path} are {node.permissions!r}"


def _host_faults(path: str) -> Iterator[str]:
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # it has a NUL
        yield f"{path} does not exist"
    else:
        if not is_device(mode) and not stat.S_ISDIR(mode):
            yield f"{path} is no device node"


@check
async def container_paths(plugin: PluginPeer) -> None:
    """Look at the answer for all devices in one container."""
    answers = await plugin.allocate_all()
    if not any(answer.devices or answer.mounts for answer in answers):
        raise NotApplicable("the answer has no device nodes and no mounts")
    for answer in answers:
        _apart((device.container_path, device.host_path) for device in answer.devices)
        _apart((mount.container_path, mount.host_path) for mount in answer.mounts)


def _apart(paths: Iterable[tuple[str, str]]) -> None:
    known: dict[str, str] = {}
    for inside, outside in paths:
        if known.setdefault(inside, outside) != outside:
            raise Failed(f"{known[inside]} and {outside} are both {inside} in the container")


@run
async def cdi_files(stage: Stage) -> None:
    """Look the names up in the files of all directories that a runtime reads."""
    answers = [answer for plugin in await stage.plugins() for answer in await plugin.all_answers()]
    names = {name for answer in answers for name in names_of(answer) if QUALIFIED.fullmatch(name)}
    if not names:
        raise NotApplicable("the answer has no CDI devices with qualified names")
    await check_declared(names, stage.cdi)


@check
async def cdi_names(plugin: PluginPeer) -> None:
    """Look at the answers for single devices, and at that for all."""
    names = [name for answer in await plugin.all_answers() for name in names_of(answer)]
    if not names:
        raise NotApplicable("the answer has no CDI devices")
    if faults := [f"{name!r} is not VENDOR/CLASS=NAME" for name in names if not QUALIFIED.fullmatch(name)]:
        raise Failed(several(faults))


@run
async def cdi_valid(stage: Stage) -> None:
    """Read the files that declare the CDI devices of the answers."""
    answers = [answer for plugin in await stage.plugins() for answer in await plugin.answers()]
    names = {name for answer in answers for name in names_of(answer)}
    files, faults = await asyncio.to_thread(faults_in, stage.cdi, names)
    if not files:
        raise NotApplicable("no file declares CDI devices of the answers")
    if faults:
        raise Failed(several(faults))
