"""What a container's first process reads from and writes to: pipes or a terminal, the log, and whoever is attached."""

import os

from actors.runtime.shim.child import Spec
from actors.runtime.shim.logs import LogFile, Pump


class Streams:
    """Opened for the child, then kept: the shim holds the other ends for as long as the container runs."""

    def __init__(self, spec: Spec) -> None:
        self.log = LogFile(spec.log) if spec.log else None
        self.pumps: list[Pump] = []
        self.input = -1
        """Write end of the container's stdin, or its terminal; -1 when it has neither."""
        self._terminal = spec.tty
        self._ends: list[int] = []
        self.child = self._open_terminal() if spec.tty else self._open_pipes(spec)
        """Stdin, stdout and stderr of the child."""

    def handed_over(self) -> None:
        """The child has its ends."""
        for descriptor in set(self._ends):
            os.close(descriptor)
        self._ends = []

    def close_input(self) -> None:
        """The container reads the end of its stdin. A terminal stays."""
        if self.input >= 0 and not self._terminal:
            os.close(self.input)
            self.input = -1

    def attach(self, number: int, descriptors: list[int]) -> None:
        """Output from now on goes to these too. One that stops reading is let go."""
        for pump, descriptor in zip(self.pumps, descriptors, strict=False):
            os.set_blocking(descriptor, False)
            pump.taps[number] = os.dup(descriptor)

    def detach(self, number: int) -> None:
        for pump in self.pumps:
            pump.untap(number)

    def detach_all(self) -> None:
        for pump in self.pumps:
            for number in list(pump.taps):
                pump.untap(number)

    def finish(self) -> None:
        for pump in self.pumps:
            pump.finish()
        self.detach_all()
        self.close_input()

    def _open_terminal(self) -> tuple[int, int, int]:
        """One for all three; a container without a log has it all the same."""
        ours, theirs = os.openpty()
        self.input = ours
        self.pumps = [Pump(ours, "stdout", self.log)]
        self._ends = [theirs]
        return theirs, theirs, theirs

    def _open_pipes(self, spec: Spec) -> tuple[int, int, int]:
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._ends = [null]
        theirs = null
        if spec.stdin:
            theirs, self.input = os.pipe()
            self._ends.append(theirs)
        if self.log is None and not spec.stdin:
            return theirs, null, null
        outputs = [os.pipe() for _ in range(2)]
        names = ("stdout", "stderr")
        self.pumps = [Pump(ends[0], name, self.log) for ends, name in zip(outputs, names, strict=True)]
        self._ends += [writable for _, writable in outputs]
        return theirs, outputs[0][1], outputs[1][1]
