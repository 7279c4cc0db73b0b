"""The Kubernetes REST API over HTTPS, served from replicas of the watch cache; `actor.py` wires it.

A request's way through the folders: `request` (socket, path, query, body) - `authentication` - `authorization` -
`endpoints` (one file per verb) - for reads `reads` and `replica`, for watches `watch`, for writes `admission`, `writes`
(with `validation` and `ownership`) and `storage` - `answers`, or `errors`. What is served stands in `catalog`, made of
`resources` (one file per family of kinds), `schemas` and, for definitions of users, `custom`; `openapi` tells it.
"""
