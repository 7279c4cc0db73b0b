"""The stage of a run of `nodeplane conform`, with its directories, and a plane where the API belongs to it."""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from protocols.process.layout import SYSTEM_CDI
from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.dra.objects import Objects
from supervisor.conform.kinds import AGENT, DRA, PLUGIN, Kind
from supervisor.conform.program_stage import Running
from supervisor.conform.stage import Stage
from supervisor.testing.api import Api
from supervisor.testing.plane import OF_THE_ROOT, PREFIX, SHORT, TestPlane, search_path, without


@contextmanager
def stage_of(kind: Kind, words: Sequence[str], kubelet_dir: str, timeout: float) -> Iterator[Running]:
    """Yield the stage; its directories are removed afterwards, unless one was given. Raises PlaneNotStarted."""
    with ExitStack() as stack:
        own = _temporary(stack)
        directory = Path(os.path.abspath(kubelet_dir)) if kubelet_dir else _temporary(stack)
        yield STAGES[kind.name](stack, directory, own, words, timeout)


def _temporary(stack: ExitStack) -> Path:
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=PREFIX, dir=SHORT)))


def _plugin(stack: ExitStack, directory: Path, own: Path, words: Sequence[str], timeout: float) -> Stage:
    return Stage(directory, own, words, environment(directory), timeout)


def _driver(stack: ExitStack, directory: Path, own: Path, words: Sequence[str], timeout: float) -> DriverStage:
    plane = TestPlane()
    stack.callback(plane.stop)
    plane.start()
    return driver_stage(plane, stack, directory, own, words, timeout)


def _agent(stack: ExitStack, directory: Path, own: Path, words: Sequence[str], timeout: float) -> AgentStage:
    socket = directory / "pod-resources" / "kubelet.sock"
    variables = environment(directory, {"NODEPLANE_POD_RESOURCES": str(socket)})
    return AgentStage(directory, own, words, variables, timeout)


def driver_stage(
    plane: TestPlane, stack: ExitStack, directory: Path, own: Path, words: Sequence[str], timeout: float
) -> DriverStage:
    """Return a stage on a plane that runs; its node does not see the program, whose kubelet directory is another."""
    variables = plane.environment()
    objects = Objects(stack.enter_context(Api(plane.layout)), variables["NODE_NAME"])
    folders = (Path(variables["CDI_ROOT"]), *SYSTEM_CDI)
    return DriverStage(directory, own, words, environment(directory, variables), timeout, objects, folders)


STAGES: Mapping[str, Callable[[ExitStack, Path, Path, Sequence[str], float], Running]] = {
    PLUGIN.name: _plugin,
    DRA.name: _driver,
    AGENT.name: _agent,
}


def environment(directory: Path, of_plane: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables of COMMAND: those of `nodeplane test`, without a plane only those about a kubelet."""
    mine = {"NODEPLANE_KUBELET_DIR": str(directory), "PATH": search_path()}
    return {**without(os.environ, OF_THE_ROOT), **(of_plane or {}), **mine}
