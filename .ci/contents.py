"""Tell whether a wheel and a source distribution hold what they should, and nothing else: `contents.py FOLDER`."""

import re
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def expected(folder: str, *endings: str) -> set[str]:
    """Return the files of a folder of the repository with one of these endings."""
    paths = (path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*") if path.is_file())
    return {path for path in paths if path.endswith(endings) and "__pycache__" not in path}


def different(what: str, found: set[str], wanted: set[str]) -> list[str]:
    """Return a sentence for each file that is missing, or one too many."""
    missing = [f"{what} lacks {name}." for name in sorted(wanted - found)]
    return missing + [f"{what} must not hold {name}." for name in sorted(found - wanted)]


def main(folder: Path) -> int:
    """Compare both files with the repository; print what differs."""
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    package = expected("gpuensemble", ".py", ".css", ".js", ".json", "py.typed")
    kernels = expected("kernels", ".cu")
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = {name for name in archive.namelist() if ".dist-info/" not in name}
    with tarfile.open(source) as archive:
        in_source = {re.sub(r"^[^/]+/", "", member.name) for member in archive if member.isfile()}
    texts = {path.name for ending in ("*.md", "*.cff", "LICENSE", "pyproject.toml") for path in ROOT.glob(ending)}
    wrong = different("The wheel", in_wheel, package | {f"gpuensemble/{name}" for name in kernels})
    wrong += different("The source distribution", in_source & (texts | package | kernels), texts | package | kernels)
    print(*wrong or [f"{len(in_wheel)} files in the wheel, {len(in_source)} in the source distribution."], sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
