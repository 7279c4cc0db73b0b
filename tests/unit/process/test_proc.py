"""Processes in /proc."""

import os
import subprocess
import sys

from protocols.process.proc import GROUP, PARENT, SESSION, STARTED, STATE, cpu_s, pids, stat_fields, stat_number

NAMED = r"open('/proc/self/comm', 'wb').write(b'\xff) Z 1 2'); print(flush=True); input()"


def test_fields_of_a_process_whose_name_has_brackets_and_no_text() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", NAMED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        fields = stat_fields(process.pid)
        assert fields[STATE] in (b"R", b"S")
        assert [int(fields[field]) for field in (PARENT, GROUP, SESSION)] == [os.getpid(), process.pid, process.pid]
        assert stat_number(process.pid, STARTED) >= stat_number(os.getpid(), STARTED) > 0
        assert process.pid in pids()
        process.communicate(b"\n")
    assert cpu_s(stat_fields(os.getpid())) > 0


def test_process_that_is_gone_has_no_fields() -> None:
    assert stat_fields(2**30) == []
    assert stat_number(2**30, PARENT) == 0
