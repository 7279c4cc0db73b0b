"""ResourceSlices of drivers that are gone: nobody else would take them away."""
