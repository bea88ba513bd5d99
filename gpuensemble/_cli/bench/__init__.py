"""`gpuensemble bench`: the cases, the harness that times them, and the machine they were run on."""
