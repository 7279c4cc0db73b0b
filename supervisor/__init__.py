"""Starts, watches, restarts and scales actors; and the command line. Imports protocols, never an actor.

Floors, each importing only those below it:

- cli: the commands of `nodeplane`; below it chaos (scripts of faults), dra (views of DRA devices) and client (a
  connection to a running plane)
- plane: the supervisor process, its bus endpoint, and a node group as an actor of another supervisor
- startup: checks, locks, port and settings before anything runs; report: console, systemd, status, metrics
- tree: the children, and when each is restarted; pki: certificates
- forkserver: the process that imports actors once and forks them; root: locks, logs and sockets below ROOT
- base: errors, options, settings, groups of actors

A start goes cli/start.py or __main__.py -> base (flags become settings) -> plane/start.py -> startup -> forkserver and
pki (both run in processes of their own meanwhile) -> plane/supervisor.py -> tree.
"""
