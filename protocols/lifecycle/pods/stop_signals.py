"""Stop signals of containers: the API's names, as `SIGRTMIN+1`, and the numbers of CRI."""

from protocols.wire import cri_pb2


def signal_number(name: str) -> "cri_pb2.Signal":
    """Return CRI's number; SIGNAL_RUNTIME_DEFAULT for no name or an unknown one: the image's signal, or SIGTERM."""
    return getattr(cri_pb2, f"SIGNAL_{name.replace('+', 'PLUS').replace('-', 'MINUS')}", cri_pb2.SIGNAL_RUNTIME_DEFAULT)


def signal_name(number: int) -> str:
    """Return the API's name; empty for SIGNAL_RUNTIME_DEFAULT and for an unknown number."""
    if number == cri_pb2.SIGNAL_RUNTIME_DEFAULT or number not in cri_pb2.Signal.values():
        return ""
    name = cri_pb2.Signal.Name(cri_pb2.Signal.ValueType(number)).removeprefix("SIGNAL_")
    return name.replace("PLUS", "+").replace("MINUS", "-")
