"""`gpuensemble doctor` checks this machine: `checks` says what is checked, `run` does it."""
