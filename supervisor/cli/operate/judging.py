"""The stage of a run of `nodeplane conform`, with its directories, and a plane where the API belongs to it."""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from protocols.process.layout import SYSTEM_CDI
from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.dra.objects import Objects
from supervisor.conform.kinds import AGENT, DRA, Kind
from supervisor.conform.profiles import GENERIC, PROFILES, Profile
from supervisor.conform.program_stage import Running
from supervisor.conform.stage import Stage
from supervisor.testing.api import Api
from supervisor.testing.plane import OF_THE_ROOT, PREFIX, SHORT, TestPlane, search_path, without


@contextmanager
def stage_of(
    kind: Kind, words: Sequence[str], kubelet_dir: str, timeout: float, profile: str = GENERIC
) -> Iterator[Running]:
    """Yield the stage; its directories are removed afterwards, unless one was given. Raises PlaneNotStarted."""
    with ExitStack() as stack:
        own = _temporary(stack)
        directory = Path(os.path.abspath(kubelet_dir)) if kubelet_dir else _temporary(stack)
        if kind is AGENT:
            yield _agent(directory, own, words, timeout, PROFILES[profile])
        elif kind is DRA:
            yield _driver(stack, directory, own, words, timeout)
        else:
            yield Stage(directory, own, words, environment(directory), timeout)


def _temporary(stack: ExitStack) -> Path:
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=PREFIX, dir=SHORT)))


def _agent(directory: Path, own: Path, words: Sequence[str], timeout: float, profile: Profile) -> AgentStage:
    socket = directory / "pod-resources" / "kubelet.sock"
    variables = environment(directory, {"NODEPLANE_POD_RESOURCES": str(socket)})
    return AgentStage(directory, own, words, variables, timeout, profile)


def _driver(stack: ExitStack, directory: Path, own: Path, words: Sequence[str], timeout: float) -> DriverStage:
    """Start a plane, too; its node does not see the program, whose kubelet directory is another."""
    plane = TestPlane()
    stack.callback(plane.stop)
    plane.start()
    variables = plane.environment()
    objects = Objects(stack.enter_context(Api(plane.layout)), variables["NODE_NAME"])
    folders = (Path(variables["CDI_ROOT"]), *SYSTEM_CDI)
    return DriverStage(directory, own, words, environment(directory, variables), timeout, objects, folders)


def environment(directory: Path, of_plane: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables of COMMAND: those of `nodeplane test`, without a plane only those about a kubelet."""
    mine = {"NODEPLANE_KUBELET_DIR": str(directory), "PATH": search_path()}
    return {**without(os.environ, OF_THE_ROOT), **(of_plane or {}), **mine}
