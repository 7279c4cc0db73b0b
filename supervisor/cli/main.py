"""The `nodeplane` command: import the module of the subcommand only, and print errors as one line."""

import importlib
import signal
import sys


def main(argv: list[str] | None = None) -> int:
    """Run a command; return the exit code: 0 success, 1 failure, 2 usage.

    As a program, Ctrl-C ends it at once while modules load: KeyboardInterrupt would be a traceback.
    """
    is_program = argv is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_program:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from supervisor.base.errors import guard

    words = sys.argv[1:] if argv is None else argv
    return guard(lambda: _run(words, is_program))


def _run(words: list[str], is_program: bool) -> int:
    from supervisor.base.errors import check_packages
    from supervisor.cli.commands import COMMANDS, command_of, parser_of
    from supervisor.cli.flags import layout_from

    check_packages()
    name = command_of(words)
    if name == "--version":
        name, words = "version", ["version"]
    if name not in COMMANDS:
        return _no_command(name)
    command = COMMANDS[name]
    module = importlib.import_module(command.path)
    args = parser_of([module]).read(words)
    if is_program:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return int(module.run(args, layout_from(args)) if command.is_actor else args.run(args))


def _no_command(name: str) -> int:
    from supervisor.base.errors import did_you_mean
    from supervisor.cli.commands import COMMANDS

    if name in ("-h", "--help", "help"):
        print(_overview())
        return 0
    known = f"no command is called {name!r}" if name else "a command is needed"
    hint = did_you_mean(name, {word: word for word in (*COMMANDS, "--root")})
    print(f"nodeplane: {known}; {hint}see nodeplane --help", file=sys.stderr)
    return 2


def _overview() -> str:
    from supervisor.cli.commands import COMMANDS

    rows = [f"  {name:<12}{command.help}" for name, command in COMMANDS.items()]
    return "\n".join(
        ["usage: nodeplane [--root DIR] COMMAND ...", "", *rows, "", "nodeplane COMMAND --help lists its flags."]
    )


if __name__ == "__main__":
    sys.exit(main())
