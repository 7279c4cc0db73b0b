"""`nodeplane plugin` without the rest of the command line."""

import argparse
import sys

from supervisor.cli import plugin

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    plugin.add_parser(parser.add_subparsers())
    sys.exit(plugin.run(parser.parse_args(["plugin", *sys.argv[1:]])))
