"""The commands of `nodeplane`; commands.py names the module of each."""
