"""A failed call in one line."""

import grpc
import grpc.aio


def describe(error: grpc.RpcError) -> str:
    if not isinstance(error, grpc.aio.AioRpcError):
        return str(error)
    details = " ".join((error.details() or "").split())
    return f"rpc error: code = {error.code().name} desc = {details}"
