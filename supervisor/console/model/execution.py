"""A command in a container: the end of its output, and how it ended."""

MAX_OUTPUT = 64 * 1024
"""Bytes of the output that are retained: its end."""
MAX_RECEIVED = 16 << 20
"""Bytes of output after which the console disconnects."""
MAX_LINES = 200


class Execution:
    """One command; only the end of its output is retained, in MAX_OUTPUT bytes."""

    def __init__(self, container: str, command: str) -> None:
        self.container, self.command = container, command
        self.outcome = ""
        """The exit code, or why there is none; empty while the command runs."""
        self._received = 0
        self._output = b""

    def add(self, data: bytes) -> None:
        self._received += len(data)
        self._output = (self._output + data)[-MAX_OUTPUT:]

    @property
    def floods(self) -> bool:
        """True once a command has written more than anyone reads."""
        return self._received > MAX_RECEIVED

    def lines(self) -> list[str]:
        """Return the last lines of the output."""
        return self._output.decode(errors="replace").expandtabs().splitlines()[-MAX_LINES:]
