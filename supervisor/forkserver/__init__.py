"""The process that imports actors once and forks each of them, and the supervisor's connection to it."""
