"""CRI's signal numbers, which are alphabetical, to the kernel's."""

import signal

from protocols.wire import cri_pb2 as pb

_NAMES = {number: name.removeprefix("SIGNAL_") for name, number in pb.Signal.items()}


def stop_signal(wanted: int) -> int:
    """The kernel's number; SIGTERM when none is configured or the number is unknown."""
    if pb.SIGNAL_SIGRTMIN <= wanted <= pb.SIGNAL_SIGRTMAX:
        return min(int(signal.SIGRTMIN) + wanted - pb.SIGNAL_SIGRTMIN, int(signal.SIGRTMAX))
    return int(getattr(signal, _NAMES.get(wanted, ""), signal.SIGTERM))
