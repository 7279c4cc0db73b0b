"""A complete device plugin, small enough to read: start with server.py, then registration.py.

It speaks only the device plugin API (protocols/wire/deviceplugin_v1beta1.proto) over two unix sockets and knows nothing
else of nodeplane; docs/how-to/write-a-device-plugin.md walks through it.
"""
