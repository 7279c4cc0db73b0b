"""Linux calls through ctypes."""

import errno
import re

import pytest

from protocols.process import linux


def test_error_of_prctl_names_its_option() -> None:
    with pytest.raises(OSError, match=re.escape("prctl(9999): Invalid argument")) as raised:
        linux.prctl(9999)
    assert raised.value.errno == errno.EINVAL


def test_detach_of_a_place_that_is_no_mount_raises() -> None:
    with pytest.raises(OSError, match=r"Invalid argument|not permitted"):
        linux.detach("/proc/self/cwd")
