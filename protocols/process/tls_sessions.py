"""No TLS session of a listening side is ever resumed.

A resumed session skips the client's certificate: neither its expiry nor its CA is checked again. TLS 1.3 resumes by
tickets only, TLS 1.2 by tickets and by session id. Python has options against tickets and none against the cache of
session ids, so the cache mode is set through OpenSSL itself.
"""

import _ssl
import ctypes
import ssl

SET_CACHE_MODE, GET_CACHE_MODE = 44, 45
"""SSL_CTRL_SET_SESS_CACHE_MODE and SSL_CTRL_GET_SESS_CACHE_MODE of openssl/ssl.h."""
CACHE_OFF, CACHE_OF_SERVERS = 0, 2
"""SSL_SESS_CACHE_OFF, and SSL_SESS_CACHE_SERVER, which every new context has."""


def disable_sessions(context: ssl.SSLContext) -> bool:
    """Return True when the session cache is off as well.

    It stays on where OpenSSL is linked in without its symbols; then the caller must refuse resumed handshakes.
    """
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    try:
        control = ctypes.CDLL(getattr(_ssl, "__file__", None)).SSL_CTX_ctrl
    except (OSError, AttributeError):
        return False
    control.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_long, ctypes.c_void_p)
    control.restype = ctypes.c_long
    # CPython keeps the SSL_CTX pointer right behind the object's header, in all versions from 3.2 on.
    pointer = ctypes.c_void_p.from_address(id(context) + object.__basicsize__).value
    if control(pointer, GET_CACHE_MODE, 0, None) != CACHE_OF_SERVERS:
        return False
    control(pointer, SET_CACHE_MODE, CACHE_OFF, None)
    return True
