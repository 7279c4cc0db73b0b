"""The connection to a DRA driver that runs already, by its socket in plugins_registry/."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from protocols.process.sockets import is_socket
from supervisor.conform.dra.driver_kubelet import DriverKubelet
from supervisor.conform.dra.objects import DraObjects
from supervisor.conform.exchange import ExchangeRecorder

BY_CALLS = ("registration", "kubelet-restarts")
"""Behaviours of a driver's life that a second kubelet can judge: it asks the driver, not the driver it."""


class ServedDriverKubelet(DriverKubelet):
    """Finds one socket only, and changes nothing in the directory of a kubelet."""

    def __init__(
        self, socket: Path, recorder: ExchangeRecorder, timeout: float, objects: DraObjects, cdi: Sequence[Path]
    ) -> None:
        super().__init__(socket.parent, recorder, timeout, objects, cdi)
        self._socket = socket

    def prepare_directories(self) -> None:
        """Do nothing: the directories are another kubelet's."""

    def remove_sockets(self) -> None:
        """Do nothing: the sockets are another kubelet's."""

    def sockets(self) -> Iterator[Path]:
        if is_socket(self._socket):
            yield self._socket
