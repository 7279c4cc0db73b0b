"""Mounts of a process, read as Linux lists them."""

from pathlib import Path

from protocols.process.mountinfo import Mounted, mounts_of

TEXT = b"""\
21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
36 35 98:0 /mnt1 /mnt/a\\040b\\134\\011c ro,nosuid master:1 propagate_from:2 - ext3 /dev/root rw,errors=continue
40 21 0:30 / /data/\xff\r\xe2\x80\xa8 rw - tmpfs none rw
"""


def test_names_are_as_the_file_system_has_them(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_bytes(TEXT)
    assert mounts_of(tmp_path) == [
        Mounted("/", frozenset({"rw", "relatime"})),
        Mounted("/mnt/a b\\\tc", frozenset({"ro", "nosuid"})),
        Mounted("/data/\udcff\r\u2028", frozenset({"rw"})),
    ]


def test_mounts_of_this_process_begin_at_its_root() -> None:
    assert "/" in {mounted.point for mounted in mounts_of()}
