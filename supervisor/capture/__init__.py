"""`nodeplane capture`: the recorded calls of a device plugin as a script that plays them again."""
