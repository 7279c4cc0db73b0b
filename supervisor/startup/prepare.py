"""Everything between the flags and the first process: directories, locks, port, settings. Cheap, and refuses before
anything is started."""

import os
from contextlib import ExitStack

from protocols.errors import SettingsInvalid
from protocols.messages.supervisor import ROOT_NAME
from protocols.process.layout import Layout
from protocols.process.settings import Settings, load_settings, save_settings
from supervisor.base.errors import AlreadyRunning, Usage
from supervisor.base.groups import GROUPS, WATCHER, check_nodes, check_watchers, children
from supervisor.base.options import PlaneOptions, layout_of
from supervisor.base.settings import check_port, settings_of, shape_of
from supervisor.base.values import bind_address
from supervisor.root import leftovers
from supervisor.root.directories import make_directories
from supervisor.root.lock import Held, supervisors
from supervisor.startup import prepared as ports
from supervisor.startup.prepared import Prepared, Serialised


def prepare(options: PlaneOptions, group: str = "", slot: int = 0) -> Prepared:
    """Raises a SupervisorError or SettingsInvalid: nothing was started, nothing is held."""
    if joins(options):
        from supervisor.startup import join as node  # asks the API: an HTTP client that a plane does without

        return node.prepare_joined(options, group, supervisor_name(group, slot))
    check_port(options.port)
    check_watchers(options.watchers)
    check_nodes(options.nodes, options.runtime)
    where = layout_of(options)
    settings_of(options, port=1)  # every flag is checked before anything is touched
    make_directories(where)
    with ExitStack() as undo:
        prepared = _prepare(options, where, (group, slot), undo)
        undo.pop_all()
        return prepared


def joins(options: PlaneOptions) -> bool:
    """Whether this root is a lone node's: told now, or at an earlier start."""
    return bool(options.join) or layout_of(options).node_kubeconfig.exists()


def supervisor_name(group: str, slot: int) -> str:
    """Its name on the bus. honcho's second watcher line is `supervisor-watch-2`, as long as the path check allows."""
    if not group:
        return ROOT_NAME
    return f"{ROOT_NAME}-watch-{slot + 1}" if group == WATCHER and slot else f"{ROOT_NAME}-{group}"


def _prepare(options: PlaneOptions, where: Layout, line: tuple[str, int], undo: ExitStack) -> Prepared:
    group, slot = line
    groups = (group,) if group else GROUPS
    name = supervisor_name(group, slot)
    with Serialised(where.run):  # so whoever holds a supervisor's lock has settled, or gives the lock back
        held = Held(where.run, name)
        undo.callback(held.release)
        others = [other for other in supervisors(where.run) if other != name]
        settings, port = _settle(options, where, groups, (_old_settings(where), bool(others)), undo)
        specs = children(shape_of(settings, groups, options.watchers, slot * options.watchers, options.nodes))
    mine = [name, *(spec.instance for spec in specs)]
    living = leftovers.wait_released(where.run, mine)
    if living:
        raise AlreadyRunning(f"{', '.join(living)} already runs below {where.root}; end it or use another --root")
    if others:
        leftovers.remove_all(where.run, mine)
    else:
        leftovers.clean(where.run)
    return Prepared(name, group, settings, specs, held, port)


def _settle(
    options: PlaneOptions, where: Layout, groups: tuple[str, ...], known: tuple[Settings | None, bool], undo: ExitStack
) -> tuple[Settings, ports.Reservation | None]:
    """Settings of the groups that run already, or new ones; and the port's reservation for the group that serves it."""
    old, others_run = known
    if old and others_run:
        settings = settings_of(options, options.port or old.port)
        _check_agreement(settings, old)
        return settings, _reserve_beside(settings, groups, where)
    port = (
        ports.reserve(options.port, old.port if old else 0, bind_address(options.bind_address))
        if WATCHER in groups or options.port == 0
        else None
    )
    if port:
        undo.callback(port.release)
    settings = settings_of(options, port.port if port else options.port)
    save_settings(where.settings, settings)
    if port and WATCHER not in groups:
        port.release()  # the watcher group will take it: it finds the number in the settings
        return settings, None
    return settings, port


def _reserve_beside(settings: Settings, groups: tuple[str, ...], where: Layout) -> ports.Reservation | None:
    if WATCHER not in groups:
        return None
    if any(name.startswith(f"{ROOT_NAME}-watch") for name in supervisors(where.run) if not _is_me(name, where)):
        return None  # another watcher line holds it for all of them
    return ports.reserve(settings.port, host=settings.bind_address)


def _is_me(name: str, where: Layout) -> bool:
    return supervisors(where.run).get(name) == os.getpid()


def _check_agreement(mine: Settings, theirs: Settings) -> None:
    for field in mine.__struct_fields__:
        ours, other = getattr(mine, field), getattr(theirs, field)
        if ours != other:
            raise Usage(f"{field} is {ours!r} here but {other!r} in the groups that run already; give all the same")


def _old_settings(where: Layout) -> Settings | None:
    try:
        return load_settings(where.settings)
    except SettingsInvalid:
        return None
