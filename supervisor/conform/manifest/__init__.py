"""A DaemonSet's manifest as the program that is judged: its pod runs on a plane, registers with the played kubelet."""
