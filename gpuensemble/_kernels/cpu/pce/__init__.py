"""These kernels do the steps of PCE: its holes, its rotations, and the search for its embedding."""
