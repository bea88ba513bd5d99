"""These launch the kernels of PCE, with the names of cpu/pce."""
