"""The Kubernetes REST API over HTTPS, served from replicas of the watch cache.

The folders are floors; a lower one never imports an upper one:

- `api`: resources, targets, selections, options of requests, schemas, errors and their Status.
- `storage`, `replica`: objects in the etcd API, and the copy of them that this process follows.
- `watch`, `authorization`: streams of changes; the rules that say who may do what.
- `reads`, `writes`: lists and gets; patch, apply, field ownership, admission, and the loop that stores.
- `resources`, `custom`: built-in kinds and custom ones: defaults, validation, printing.
- `http`: connections, authentication, fairness, routes, endpoints, audit.

`actor.py` assembles the table of resources and the process. KEP-1904 lives in `replica` and `watch`.
"""
