"""Claims of devices: made from templates, freed when their pods are done."""
