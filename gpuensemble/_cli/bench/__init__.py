"""`gpuensemble bench` has cases, the harness that times them, and a description of the machine they were run on."""
