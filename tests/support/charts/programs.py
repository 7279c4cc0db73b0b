"""Start a program by the name that a chart's container has as its command."""

import signal
import sys
from pathlib import Path

from tests.support.charts import drivers, features

PROGRAMS = {
    "dra-example-kubeletplugin": drivers.dra_driver,
    "nvidia-device-plugin": drivers.device_plugin,
    "nfd-worker": features.worker,
    "nfd-master": features.master,
    "resource-topology-exporter": features.exporter,
}

if __name__ == "__main__":
    # The first process of a container ignores signals that it has no handler for.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    name = Path(sys.argv.pop(1)).name
    PROGRAMS[name]()
