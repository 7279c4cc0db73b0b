"""Process beside a container. Standard library only, since each shim is a fork of one small launcher process.

A shim outlives the runtime and the whole plane. Nothing here may import anything but this folder
and protocols.process.beneath, which is standard library only as well.
"""
