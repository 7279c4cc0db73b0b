"""The process that imports actors once and forks each of them, and the supervisor's end of it."""
