"""One pod: why it is in its state, containers, devices, trace, events and log."""

import asyncio
import shlex
import time
from contextlib import aclosing
from functools import partial
from typing import ClassVar

from textual.binding import Binding, BindingType

from protocols.errors import NodeplaneError
from protocols.trace import Row
from supervisor.console.drawing import trace
from supervisor.console.drawing.text import BAD, DIM, PENDING, TITLE, Line, Part, cut, pad, safe, wrap
from supervisor.console.model.execution import Execution
from supervisor.console.model.pods import Pod
from supervisor.console.screens.detail import DetailScreen
from supervisor.console.widgets.dialogs import Prompt
from supervisor.trace.draw import CUT, is_cut

EVENT_INDENT = 10
"""The width of an event's time: its further lines begin below its type."""
TRACE_LINES = 6
"""Lines of the trace in the overview of a pod: its title and the last steps."""
LOG_LINES = 4
"""Lines of the log above the events, so that they are seen without scrolling on a small terminal."""
WHY_S = 6.0
"""Time between two diagnoses of a pod that does not change: each reads the API, the bus and the trace."""
WHY_LINES = 6
"""Lines of the diagnosis in the overview of a pod: its sentence, and the first evidence."""

EXEC_S = 60.0
"""Longest time for which the output of a command is waited for."""
EXEC, DONE = "exec", "exit code 0"
EXAMPLE = "ls -l /dev   or   sh -c 'env | sort'"
CHANGES = ("exec", "shell", "delete")
"""Actions that a read-only console does not have."""


class PodScreen(DetailScreen):
    """Why a pod is in its state; its containers, devices, trace, events and log."""

    KIND = "Pod"
    ABOUT = (
        "Why it is in its state, containers, devices, the last steps of the trace, events, and the log of one "
        "container. t shows all steps with their start, duration and process, as `nodeplane trace` does; l shows the "
        "next container's log. x runs a command in that container, s opens a shell there, d deletes the pod."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "whole", "trace"),
        Binding("l", "next_log", "next log"),
        Binding("x", "exec", "exec"),
        Binding("s", "shell", "shell"),
        Binding("d", "delete", "delete"),
    ]

    def __init__(self, pod: Pod) -> None:
        super().__init__()
        self._pod = pod
        self._why: list[str] = []
        self._asked: tuple[float, Pod | None] = (0.0, None)
        """Time and pod of the last diagnosis."""
        self._events: list[str] = []
        self._log = ""
        self._shown = 0
        self._trace: list[Row] = []
        self._untraced = "reading ..."
        self._execution: Execution | None = None

    async def read(self) -> None:
        self.run_worker(self._ask_why(), group="why", exit_on_error=False)
        traced, self._events, self._log = await asyncio.gather(
            self.host.trace_of(self._pod), self.host.events_of(self._pod), self._read_log()
        )
        self._trace, self._untraced = traced

    async def _ask_why(self) -> None:
        """Diagnose the pod apart from what else is read, which is given up when it is read again."""
        now, pod = time.monotonic(), self._pod
        if now - self._asked[0] < WHY_S and self._asked[1] == pod:
            return
        self._asked = (now, pod)
        self._why = await self.host.why_of(pod)
        self.refresh_world()

    async def _read_log(self) -> str:
        container = self._log_container()
        return await self.host.log_of(self._pod, container) if container else ""

    def _log_container(self) -> str:
        """Return the name of the container whose log is shown; empty for a pod without containers."""
        containers = self._pod.containers
        return containers[self._shown % len(containers)].name if containers else ""

    def action_next_log(self) -> None:
        self._shown += 1
        self._read_again()

    def action_delete(self) -> None:
        self.host.ask_delete(self._pod)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action not in CHANGES or not self.host.read_only

    def action_close(self) -> None:
        if self._execution and not self.whole:
            self.workers.cancel_group(self, EXEC)
            self._execution = None
            self.show_top()
        else:
            super().action_close()

    def action_exec(self) -> None:
        if container := self._log_container():
            question = f"Command in container {container} of pod {self._pod.key}:"
            self.app.push_screen(Prompt(question, EXAMPLE), partial(self._execute, container))

    def action_shell(self) -> None:
        if container := self._log_container():
            self.run_worker(self.host.shell_in(self._pod, container), group="shell", exit_on_error=False)

    def _execute(self, container: str, command: str | None) -> None:
        if command:
            self._execution = Execution(container, command)
            self.run_worker(self._run(self._execution), group=EXEC, exclusive=True, exit_on_error=False)
            self.show_top()

    async def _run(self, execution: Execution) -> None:
        """Collect output as it comes; the application's timer draws it."""
        try:
            words = shlex.split(execution.command)
            command = self.host.exec_in(self._pod, execution.container, words)
            async with asyncio.timeout(EXEC_S), aclosing(command) as output:
                async for data in output:
                    execution.add(data)
                    if execution.floods:
                        break
            execution.outcome = "too much output: disconnected" if execution.floods else DONE
        except TimeoutError:
            execution.outcome = f"not ended in {EXEC_S:g} s: disconnected"
        except (NodeplaneError, OSError, ValueError) as error:
            execution.outcome = str(error)

    def lines(self) -> list[Line]:
        world, width = self.host.world, self.size.width - 2
        pod = self._pod = world.pods.items.get(self._pod.key, self._pod)
        gone = "" if pod.key in world.pods.items else "  (deleted)"
        head: Line = [Part(safe(pod.key), TITLE), Part(f"  {safe(pod.status)}{gone}  on {safe(pod.node or '-')}")]
        waterfall = list(trace.lines(self._trace, width)) or [[Part(cut(self._untraced, width), DIM)]]
        lost: list[Line] = [[Part(cut(CUT, width), DIM)]] if self._trace and is_cut(self._trace) else []
        if self.whole:
            return [head, *lost, *waterfall]
        if self._execution:
            return [head, *_output_lines(self._execution, width)]
        more = f"  (the last ones; t: all {len(self._trace)} steps)" if len(waterfall) > TRACE_LINES else ""
        log: list[Line] = [[Part(cut(entry, width))] for entry in reversed(self._log.splitlines())]
        return [
            head,
            *self._diagnosis(width),
            [Part(cut(f"devices: {', '.join(world.devices.of_pod(pod.uid)) or '-'}", width))],
            *([[Part(cut(pod.message, width))]] if pod.message else []),
            *self._containers(width),
            [],
            [Part("TRACE", TITLE), Part(more, DIM)],
            *lost,
            *waterfall[:1],
            *waterfall[1:][1 - TRACE_LINES :],
            [],
            [Part(f"LOG of {safe(self._log_container() or '-')}", TITLE), Part("  (newest first)", DIM)],
            *log[:LOG_LINES],
            [],
            [Part("EVENTS", TITLE)],
            *([Part(line)] for event in self._events or ["none"] for line in wrap(event, width, EVENT_INDENT)),
            *([[], [Part("OLDER LOG", TITLE)], *log[LOG_LINES:]] if log[LOG_LINES:] else []),
        ]

    def _diagnosis(self, width: int) -> list[Line]:
        """Return the whole reason, then as many lines of evidence and advice as fit."""
        first, *others = self._why or ["why: reading ..."]
        shown = [*wrap(first, width, 2), *(cut(other, width) for other in others)]
        return [[Part(line, "" if at else TITLE)] for at, line in enumerate(shown[:WHY_LINES])]

    def _containers(self, width: int) -> list[Line]:
        lines: list[Line] = [[Part(f"{'CONTAINER':<20} {'READY':<6}{'RESTARTS':<9} STATE", TITLE)]]
        for container in self._pod.containers:
            ready = "yes" if container.ready else "no"
            row = f"{pad(container.name, 20)} {ready:<6}{container.restarts:<9} {container.state}  {container.image}"
            lines.append([Part(cut(row, width))])
            if container.ended:
                lines.append([Part(cut(f"  last run: {container.ended}", width), DIM)])
        return lines


def _output_lines(execution: Execution, width: int) -> list[Line]:
    """Return the command, how it ended, and its output."""
    title = f"EXEC in {safe(execution.container)}: {safe(execution.command)}"
    state = execution.outcome or "runs ..."
    role = PENDING if not execution.outcome else "" if execution.outcome == DONE else BAD
    output: list[Line] = [[Part(line)] for text in execution.lines() for line in wrap(text, width)]
    return [[], [Part(cut(title, width), TITLE)], *([Part(line, role)] for line in wrap(state, width)), [], *output]
