"""From options to a prepared plane: directories, locks, port and settings. Errors come before anything is started."""

import os
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import msgspec

from protocols.errors import SettingsInvalid
from protocols.messages.supervisor import ROOT_NAME
from protocols.process.files import UNREADABLE, read_state
from protocols.process.layout import Layout
from protocols.process.settings import Settings, load_settings, save_settings
from protocols.recording.frames import RecordingInvalid
from protocols.recording.writer import open_recording
from supervisor.base.errors import AlreadyRunning, UsageError
from supervisor.base.groups import GROUPS, NODE, WATCHER, check_nodes, check_watchers, children
from supervisor.base.options import PlaneOptions, layout_of
from supervisor.base.settings import check_port, settings_of, shape_of
from supervisor.base.values import bind_address
from supervisor.root import leftovers
from supervisor.root.directories import make_directories
from supervisor.root.lock import SupervisorLocks, supervisors
from supervisor.startup.prepared import Prepared, Reservation, SettingsLock, reserve


def prepare(options: PlaneOptions, group: str = "", slot: int = 0) -> Prepared:
    """Prepare a plane, or one group of it. Raises SupervisorError or SettingsInvalid, and then holds no lock."""
    if joins_other_plane(options):
        from supervisor.startup import join  # loads an HTTP client, which a plane does without

        return join.prepare_joined(options, group, supervisor_name(group, slot))
    check_port(options.port)
    check_watchers(options.watchers)
    check_nodes(options.nodes, options.runtime)
    where = layout_of(options)
    settings_of(options, port=1).check_node_paths(options.nodes)  # every flag is checked before anything is touched
    make_directories(where)
    with ExitStack() as undo:
        prepared = _prepare(options, where, (group, slot), undo)
        undo.pop_all()
        return prepared


def joins_other_plane(options: PlaneOptions) -> bool:
    """Return True if this root belongs to a node that joins another plane, by a flag now or at an earlier start."""
    return bool(options.join) or layout_of(options).node_kubeconfig.exists()


def supervisor_name(group: str, slot: int) -> str:
    """Return the name of the supervisor on the bus; the second watcher line of honcho is `supervisor-watch-2`."""
    if not group:
        return ROOT_NAME
    return f"{ROOT_NAME}-watch-{slot + 1}" if group == WATCHER and slot else f"{ROOT_NAME}-{group}"


def _prepare(options: PlaneOptions, where: Layout, line: tuple[str, int], undo: ExitStack) -> Prepared:
    group, slot = line
    groups = (group,) if group else GROUPS
    name = supervisor_name(group, slot)
    with SettingsLock(where.run):  # so every holder of a supervisor lock has its settings saved
        held = SupervisorLocks(where.run, name)
        undo.callback(held.release)
        others = [other for other in supervisors(where.run) if other != name]
        old = _old_settings(where) if others else None
        settings, port = _agree_on_settings(options, where, groups, old, undo)
        settings_file = _settings_file(where, name, settings, old)
        specs = children(shape_of(settings, groups, options.watchers, slot * options.watchers, options.nodes))
    mine = [name, *(spec.instance for spec in specs)]
    living = leftovers.wait_released(where.run, mine)
    if living:
        raise AlreadyRunning(f"{', '.join(living)} already runs below {where.root}; end it or use another --root")
    if others:
        leftovers.remove_all(where.run, mine)
    else:
        leftovers.clean(where.run)
    if NODE in groups:
        begin_recording(settings)
    return Prepared(name, group, settings, specs, held, port, settings_file)


def begin_recording(settings: Settings) -> None:
    """Create or empty the recording. Raises UsageError for a file that cannot be written or is no recording."""
    if not settings.record:
        return
    try:
        with open_recording(Path(settings.record)) as file:
            file.truncate(0)
    except (RecordingInvalid, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"--record {settings.record}: {reason}") from None


def _agree_on_settings(
    options: PlaneOptions, where: Layout, groups: tuple[str, ...], old: Settings | None, undo: ExitStack
) -> tuple[Settings, Reservation | None]:
    """Return the settings, which running groups must share, and the reserved port if this group serves it.

    `old`: settings of the groups that run.
    """
    if old:
        settings = settings_of(options, options.port or old.port)
        gates = old.feature_gates if options.feature_gate_skew == "true" else settings.feature_gates
        _check_agreement(msgspec.structs.replace(settings, feature_gates=gates), old)
        return settings, _reserve_beside(settings, groups, where)
    port = (
        reserve(options.port, _retained_port(where), bind_address(options.bind_address))
        if WATCHER in groups or options.port == 0
        else None
    )
    if port:
        undo.callback(port.release)
    settings = settings_of(options, port.port if port else options.port)
    save_settings(where.settings, settings)
    if port and WATCHER not in groups:
        port.release()  # the watcher group reserves it by the number in the settings
        return settings, None
    return settings, port


def _settings_file(where: Layout, name: str, settings: Settings, old: Settings | None) -> Path:
    """Return the file with the settings of this group's actors; write it if they differ from the plane's."""
    if old is None or settings == old:
        return where.settings
    path = where.group_settings(name)
    save_settings(path, settings)
    return path


def _reserve_beside(settings: Settings, groups: tuple[str, ...], where: Layout) -> Reservation | None:
    if WATCHER not in groups:
        return None
    if any(name.startswith(f"{ROOT_NAME}-watch") for name in supervisors(where.run) if not _is_me(name, where)):
        return None  # another watcher line holds it
    return reserve(settings.port, host=settings.bind_address)


def _is_me(name: str, where: Layout) -> bool:
    return supervisors(where.run).get(name) == os.getpid()


_SKEW = defaultdict(str, feature_gates=", or --feature-gate-skew true if they differ on purpose")


def _check_agreement(mine: Settings, theirs: Settings) -> None:
    for field in mine.__struct_fields__:
        ours, other = getattr(mine, field), getattr(theirs, field)
        if ours != other:
            differ = f"{field} is {ours!r} here but {other!r} in the groups that run already"
            raise UsageError(f"{differ}; give all the same{_SKEW[field]}")


class _Retained(msgspec.Struct):
    """The part of an earlier start's settings, of any version, that the next start keeps."""

    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0


def _retained_port(where: Layout) -> int:
    """Return the port of the earlier start; 0 if there was none."""
    try:
        return msgspec.json.decode(read_state(where.settings), type=_Retained).port
    except (OSError, *UNREADABLE):
        return 0


def _old_settings(where: Layout) -> Settings | None:
    try:
        return load_settings(where.settings)
    except SettingsInvalid:
        return None
