"""`gpuensemble doctor`: `checks` says what is checked, `run` does it."""
