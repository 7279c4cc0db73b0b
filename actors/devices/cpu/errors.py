"""Why CPUs are not given. The texts are upstream's: clients match on them."""

from typing import ClassVar

from actors.devices.errors import AdmissionRefused, CannotPlace


class NotEnoughCpus(CannotPlace):
    """Raised when a container asks for more exclusive CPUs than are free."""

    def __init__(self, requested: int, available: int) -> None:
        super().__init__(f"not enough cpus available to satisfy request: requested={requested}, available={available}")


class SmtAlignment(AdmissionRefused):
    """Raised under full-pcpus-only when a request is no multiple of a core, or too few whole cores are free."""

    details: ClassVar[dict[str, str]] = {"reason": "SMTAlignmentError"}
