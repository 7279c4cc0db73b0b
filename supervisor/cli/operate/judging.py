"""The stage of a run of `nodeplane conform`, with its directories, and a plane where the API belongs to it."""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from protocols.process.layout import Layout
from protocols.process.settings import load_settings
from protocols.process.sockets import answers
from protocols.wire import deviceplugin_v1beta1_pb2 as deviceplugin
from protocols.wire import pluginregistration_v1_pb2 as registration
from protocols.wire.plugins import GET_INFO, GET_OPTIONS
from supervisor.base.errors import UsageError
from supervisor.client.connection import running
from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.cdi import folders_of
from supervisor.conform.dra.driver_kubelet import BY_CALLS, DriverKubelet, ServedDriverKubelet
from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.dra.objects import DraObjects
from supervisor.conform.exchange import ExchangeRecorder
from supervisor.conform.kubelet import Kubelet, ServedKubelet
from supervisor.conform.linked_server import PREVIOUS
from supervisor.conform.manifest.documents import HostPaths, Manifest, pod_of, read_manifest
from supervisor.conform.manifest.install import apply_others, check_manifest, import_image, prepare_directories
from supervisor.conform.manifest.pod_program import PodLauncher
from supervisor.conform.manifest.pods import ManifestPods
from supervisor.conform.profiles import GENERIC, PROFILES
from supervisor.conform.program import CommandLauncher, Launcher
from supervisor.conform.program_stage import Running
from supervisor.conform.scripts import AGENT, DRA, Kind
from supervisor.conform.served import ServedLauncher, check_socket
from supervisor.conform.stage import Stage
from supervisor.testing.api import Api
from supervisor.testing.plane import OF_THE_ROOT, PREFIX, SHORT, TestPlane, environment_of, search_path, without

NO_SERVER = "an agent calls a server and serves none: give it as -- COMMAND, not by --socket"


class JudgedProgram(NamedTuple):
    """The judged program: `words` of a command, a `manifest`, or the `socket` of one that runs already."""

    kind: Kind
    timeout: float
    words: Sequence[str] = ()
    socket: str = ""
    manifest: str = ""
    image: str = ""
    """Archive of the manifest's image."""
    runtime: str = ""
    """Runtime of the manifest's pods; empty: the embedded one."""
    kubelet_dir: str = ""
    """To serve in; empty: a temporary one."""
    profile: str = ""
    where: Layout | None = None
    """The running plane whose API a driver with a socket uses."""

    @property
    def shown(self) -> list[str]:
        """The words by which reports name it."""
        if self.manifest:
            return ["--manifest", self.manifest]
        return ["--socket", self.socket] if self.socket else list(self.words)


@contextmanager
def stage_of(subject: JudgedProgram) -> Iterator[Running]:
    """Yield the stage; its directories are removed afterwards, unless one was given.

    Raises PlaneNotStarted, SocketUnusable, ManifestUnusable, and NotRunning for a driver with a socket without a plane.
    """
    with ExitStack() as stack:
        yield _served(stack, subject) if subject.socket else _started(stack, subject)


def _served(stack: ExitStack, subject: JudgedProgram) -> Running:
    socket, timeout = Path(os.path.abspath(subject.socket)), subject.timeout
    if subject.kind is AGENT:
        raise UsageError(NO_SERVER)
    if subject.kind is not DRA:
        check_socket(socket, GET_OPTIONS, deviceplugin.Empty(), "a device plugin", timeout)
        plugin = ServedKubelet(socket, ExchangeRecorder(), timeout)
        return Stage(plugin, ServedLauncher(socket, {**os.environ, "PATH": search_path()}), timeout)
    check_socket(socket, GET_INFO, registration.InfoRequest(), "a DRA driver, in plugins_registry/", timeout)
    assert subject.where is not None
    running(subject.where)
    where = load_settings(subject.where.settings).layout
    variables = environment_of(where)
    objects, folders = _api(stack, where, variables)
    kubelet = ServedDriverKubelet(socket, ExchangeRecorder(), timeout, objects, folders)
    return DriverStage(kubelet, ServedLauncher(socket, {**os.environ, **variables}, BY_CALLS), timeout)


def _started(stack: ExitStack, subject: JudgedProgram) -> Running:
    directory = _given(stack, subject.kubelet_dir) if subject.kubelet_dir else _temporary(stack)
    manifest = read_manifest(subject.manifest) if subject.manifest else None
    if manifest:
        check_manifest(manifest, directory, runtime=subject.runtime, image=subject.image)
    plane = _plane(stack, subject.runtime) if manifest or subject.kind is DRA else None
    of_plane = plane.environment() if plane else {"CDI_ROOT": os.environ.get("CDI_ROOT") or str(_temporary(stack))}
    if subject.kind is AGENT:
        of_plane["NODEPLANE_POD_RESOURCES"] = str(directory / "pod-resources" / "kubelet.sock")
    variables = environment(directory, of_plane)
    if not manifest or not plane:
        launcher: Launcher = CommandLauncher(subject.words, variables, _temporary(stack) / "output")
        return _stage(stack, subject, directory, launcher, plane)
    paths = HostPaths(directory, Path(of_plane["CDI_ROOT"]))
    launcher = _pods(stack, plane.layout, manifest, paths, subject.image, variables)
    return _stage(stack, subject, directory, launcher, plane, paths.here)


def _stage(
    stack: ExitStack,
    subject: JudgedProgram,
    directory: Path,
    launcher: Launcher,
    plane: TestPlane | None,
    here: Callable[[str], Path] = Path,
) -> Running:
    timeout = subject.timeout
    if subject.kind is AGENT:
        return AgentStage(directory, launcher, timeout, PROFILES[subject.profile or GENERIC])
    if subject.kind is DRA and plane:
        api = _api(stack, plane.layout, launcher.environment)
        return DriverStage(DriverKubelet(directory, ExchangeRecorder(), timeout, *api, here), launcher, timeout)
    return Stage(Kubelet(directory, ExchangeRecorder(), timeout), launcher, timeout, PROFILES.get(subject.profile))


def _pods(
    stack: ExitStack, where: Layout, manifest: Manifest, paths: HostPaths, image: str, variables: Mapping[str, str]
) -> Launcher:
    """Apply the manifest; return the launcher of its pods."""
    pod = pod_of(manifest, variables["NODE_NAME"], paths)
    prepare_directories(paths.kubelet)
    if image:
        import_image(where, image, pod)
    api = stack.enter_context(Api(where))
    apply_others(api, manifest)
    return PodLauncher(ManifestPods(api, where), pod, manifest.daemon_set["metadata"]["name"], variables)


def _given(stack: ExitStack, text: str) -> Path:
    """Return the directory; what a played kubelet leaves there is removed. Raises UsageError if one serves in it."""
    directory = Path(os.path.abspath(text))
    for folder in ("device-plugins", "pod-resources"):
        if answers(socket := directory / folder / "kubelet.sock"):
            raise UsageError(f"a kubelet serves {socket}; stop it, or give another --kubelet-dir")
    stack.callback((directory / PREVIOUS).unlink, missing_ok=True)
    return directory


def _temporary(stack: ExitStack) -> Path:
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=PREFIX, dir=SHORT)))


def _plane(stack: ExitStack, runtime: str) -> TestPlane:
    """Start a plane; its node does not see the program, whose kubelet directory is another."""
    plane = TestPlane([f"--runtime={runtime}"] if runtime else [])
    stack.callback(plane.stop)
    plane.start()
    return plane


def _api(stack: ExitStack, where: Layout, variables: Mapping[str, str]) -> tuple[DraObjects, list[Path]]:
    """Return the objects of the plane's API, and the directories of CDI files."""
    objects = DraObjects(stack.enter_context(Api(where)), variables["NODE_NAME"])
    return objects, folders_of(variables)


def environment(directory: Path, of_plane: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables of COMMAND: those of `nodeplane test`, without a plane only those about a kubelet."""
    mine = {"NODEPLANE_KUBELET_DIR": str(directory), "PATH": search_path()}
    return {**without(os.environ, OF_THE_ROOT), **(of_plane or {}), **mine}
