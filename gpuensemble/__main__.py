"""The command line: `gpuensemble`, or `python -m gpuensemble`."""

import sys


def main() -> int:
    """Run a command. Whoever interrupts it while it is being loaded gets a sentence, too."""
    try:
        from gpuensemble._cli.main import main as run
    except KeyboardInterrupt:
        print("gpuensemble: interrupted.", file=sys.stderr)
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
