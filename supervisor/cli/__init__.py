"""The commands of `nodeplane`; main.py names the module of each."""
