"""`python -m gpuensemble`: the command line."""

import sys

from gpuensemble._cli.main import main

if __name__ == "__main__":
    sys.exit(main())
