"""Programs a user might write, one for each client library; each is run as a process of its own and says `done`."""
