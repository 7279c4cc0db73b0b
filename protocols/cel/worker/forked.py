"""Selectors in a program that has no worker and may wait, such as a command: evaluated in a process of its own."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from protocols.cel.worker.evaluator import HEAD, Evaluator
from protocols.cel.worker.loading import load
from protocols.cel.worker.local import wire_of
from protocols.cel.worker.messages import (
    Batch,
    DriverDevices,
    EvaluationEnded,
    Select,
    Selected,
    WorkerFault,
    decode_answer,
    encode,
    error_of,
)
from protocols.cel.worker.sandbox import WALL_S
from protocols.cel.worker.selections import evaluated_by
from protocols.dra.types import Device

GRACE_S = 10.0
"""Time beyond the evaluator's own limit, in which it also starts."""


class ForkedSelections:
    """Selections by one forked evaluator: made with the first selector, and made again after it died."""

    def __init__(self) -> None:
        self._evaluator: Evaluator | None = None
        self._ended: dict[str, str] = {}

    def result(self, expression: str, driver: str, device: Device) -> bool:
        """Raises CelError."""
        if expression in self._ended:
            raise EvaluationEnded(self._ended[expression])
        question = encode(Select(expression, DriverDevices(driver, (0,), {0: wire_of(device)})))
        try:
            answer = decode_answer(self._asked(encode(Batch((question,)))))
        except (OSError, EOFError):
            self._ended[expression] = f"the expression ended its evaluation ({self.close()})"
            raise EvaluationEnded(self._ended[expression]) from None
        outcome = answer.outcomes[0] if isinstance(answer, Selected) else answer
        if isinstance(outcome, WorkerFault):
            raise error_of(outcome)
        return outcome is True

    def close(self) -> str:
        """End the evaluator; return how it ended."""
        evaluator, self._evaluator = self._evaluator, None
        if evaluator is None:
            return "not started"
        status = 0
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(evaluator.pid, signal.SIGKILL)
            _, status = os.waitpid(evaluator.pid, 0)
        evaluator.close()
        return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "it needed too much memory"

    def _asked(self, batch: bytes) -> bytes:
        """Raises OSError, EOFError."""
        if self._evaluator is None:
            self._evaluator = Evaluator(load)
            self._evaluator.socket.settimeout(WALL_S + GRACE_S)
        sock = self._evaluator.socket
        sock.sendall(HEAD.pack(len(batch)) + batch)
        return _exactly(sock, HEAD.unpack(_exactly(sock, HEAD.size))[0])


def _exactly(sock: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        part = sock.recv(count - len(received))
        if not part:
            raise EOFError
        received += part
    return received


@contextmanager
def forked_selections() -> Iterator[None]:
    """Evaluate the selectors of the block in a process of their own."""
    forked = ForkedSelections()
    try:
        with evaluated_by(forked):
            yield
    finally:
        forked.close()
