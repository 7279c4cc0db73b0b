"""Async client of the etcd v3 API: for our store and for real clusters.

    client = EtcdClient(EtcdOptions(endpoints=("unix:/run/np/store.sock",)))
    await client.start()
    written = await client.create_if_absent(b"/registry/pods/default/a", body)      # Written(ok, revision, current)
    written = await client.update_if_revision(key, body, mod_revision)
    written = await client.delete_if_revision(key, mod_revision)
    kv, revision = await client.get(key)
    page = await client.range(b"/registry/pods/", limit=500)                        # Ranged(kvs, more, count, revision)
    async with client.watch(b"/registry/", start_revision=page.revision + 1) as watch:
        async for batch in watch:                                                   # WatchBatch(revision, events)
            ...

Faults are in protocols.etcd.errors; every one carries its HTTP and gRPC code.
"""
