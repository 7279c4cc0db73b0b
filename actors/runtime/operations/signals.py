"""CRI's signal numbers, which are alphabetical, to the kernel's."""

import signal

from protocols.wire import cri_pb2 as pb

_NAMES = {number: name.removeprefix("SIGNAL_") for name, number in pb.Signal.items()}


def stop_signal(wanted: int, of_image: str = "") -> int:
    """The kernel's number; the image's own when none is configured; SIGTERM when that says nothing known either."""
    if wanted == pb.SIGNAL_RUNTIME_DEFAULT and of_image:
        return _named(of_image)
    if pb.SIGNAL_SIGRTMIN <= wanted <= pb.SIGNAL_SIGRTMAX:
        return min(int(signal.SIGRTMIN) + wanted - pb.SIGNAL_SIGRTMIN, int(signal.SIGRTMAX))
    return int(getattr(signal, _NAMES.get(wanted, ""), signal.SIGTERM))


def _named(text: str) -> int:
    """`SIGQUIT`, `quit`, `3`, `SIGRTMIN+3`: as images write it."""
    name, _, offset = text.strip().upper().partition("+")
    if name.isdecimal():
        number = int(name)
    else:
        number = int(getattr(signal, "SIG" + name.removeprefix("SIG"), 0)) + int(offset if offset.isdecimal() else 0)
    return number if 0 < number <= int(signal.SIGRTMAX) else int(signal.SIGTERM)
