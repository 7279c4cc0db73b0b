"""A shell in a container: kubectl's, which has the terminal until it ends."""

import asyncio
from collections.abc import Sequence

from protocols.process.layout import Layout, layout
from supervisor.console.model.pods import Pod

KUBECTL = "kubectl"
SHELL = "sh"


def shell_command(where: Layout, pod: Pod, container: str) -> list[str]:
    """Return the command that opens a shell, with the rights of the plane's kubeconfig."""
    config = layout(str(where.plane)).kubeconfig
    words = [KUBECTL, f"--kubeconfig={config}", f"--namespace={pod.namespace}", "exec", "-it", pod.name]
    return [*words, f"--container={container}", "--", SHELL]


async def run_shell(command: Sequence[str]) -> str:
    """Run it in the terminal; return why it failed, empty for a shell that was left."""
    try:
        process = await asyncio.create_subprocess_exec(*command)
    except FileNotFoundError:
        return f"a shell needs {command[0]}, which is not installed; x runs a command without it"
    except OSError as error:
        return f"{command[0]}: {error}"
    code = await process.wait()
    return f"the shell ended with exit code {code}" if code else ""
