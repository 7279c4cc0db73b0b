"""The cache of patched slices: takes changes of slices, patches, rules and classes in any order, and tells what became
of the slices. Pure; a shell feeds it."""
