"""`python -m gpuensemble`: the command line."""

import sys

from gpuensemble.cli import main

if __name__ == "__main__":
    sys.exit(main())
