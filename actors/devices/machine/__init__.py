"""The machine under pods: what sysfs tells of it, who holds which part of it, and the files that say so."""
