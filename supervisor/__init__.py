"""What starts, watches, restarts and scales actors, and the command line. Imports protocols, never an actor.

The way of a start: `cli/up.py` or `__main__.py` -> `options/` (flags become settings) -> `start.py` -> `startup/`
(locks, port, directories) -> `forkserver/` and `pki/` (processes and certificates in the making) -> `plane.py` ->
`tree/` (each child's life), with `control.py` for orders, `report/` and `metrics/` for those who look, `root/` for
the files below ROOT. Beside it: `cli/` has one file a command; `chaos/`, `plugin/`, `dra_driver/`, `scripted/`,
`dra/` and `watch/` are what commands do.
"""
