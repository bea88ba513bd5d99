"""Consensus clustering takes many partitions of the same samples, and finds one that agrees with them."""

import argparse
import json
import os
import sys
import warnings
from typing import Any

from gpuensemble import __version__, segments
from gpuensemble._cli import commands, demo, features, files
from gpuensemble._cli.bench import cases as bench_cases
from gpuensemble._cli.doctor import run as doctor
from gpuensemble._cli.text import SEPARATORS
from gpuensemble._tables.files import first_line
from gpuensemble.clustering import WAYS
from gpuensemble.estimators._base import registry

FILES = """Tables are text (.csv, .tsv, .txt, packed as .gz or .zst if you like), Parquet, NPY or NPZ files, by their
ending; - is text on stdin. Names in the first line and a column of ids are told by evidence: names
occur nowhere below them, ids are called so, or are text that is all different. What was recognised is
said on stderr; what is unclear is refused. Holes in labels are empty cells, NA, NaN, None, null or -1."""
EXIT = "Exit code: 0, 1 if a check or a score failed, 2 for bad input, with a sentence on stderr."


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return 0 if it went well, 1 if a check or a score failed, 2 after one sentence on bad input."""
    options = vars(_parser().parse_args(arguments))
    run, as_json = options.pop("run"), options.pop("json")
    if run is _bench:
        options["quiet"] = as_json
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            report, text, code = run(**options)
        print(json.dumps(report, default=_jsonable) if as_json else text, flush=True)
        return code
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        place = "" if error.filename is None else f"{error.filename}: "
        print(f"gpuensemble: {place}{error.strerror or first_line(error)}.", file=sys.stderr)
    except (TypeError, ValueError, ModuleNotFoundError) as error:
        print(f"gpuensemble: {' '.join(str(error).split())}", file=sys.stderr)
    except MemoryError as error:
        print(f"gpuensemble: not enough memory: {first_line(error)}.", file=sys.stderr)
    except KeyboardInterrupt:
        print("gpuensemble: interrupted.", file=sys.stderr)
        return 130
    return 2


def _show_warning(message: Any, *_: Any) -> None:
    print(f"gpuensemble: warning: {' '.join(str(message).split())}", file=sys.stderr)


def _jsonable(value: Any) -> Any:
    """Return a table as its columns."""
    return value.to_dict("list")


def _verbose() -> int:
    """Return 1, which asks for progress bars, if a person watches stderr, else 0."""
    return int(sys.stderr.isatty())


def _demo(**options: Any) -> tuple[Any, str, int]:
    report = demo.run(**options, verbose=_verbose())
    return report, demo.table(report), 0


def _doctor(device: str) -> tuple[Any, str, int]:
    report = doctor.run(device)
    return report, doctor.table(report), int(report["failed"] > 0)


def _bench(device: str, samples: int, repeat: int, only: str, out: str | None, quiet: bool) -> tuple[Any, str, int]:
    files.check_output(out, (".json",))
    report = bench_cases.run(device, samples, repeat, only, lambda line: None if quiet else print(line, flush=True))
    if out is not None:
        files.write_json(out, report)
    differ = [result["case"] for result in report["results"] if not result["agree"]]
    verdict = f"FAIL: answers differ in {', '.join(differ)}" if differ else "all answers agree"
    rates = ", ".join(f"{name} {rate / 1e9:.1f} GB/s" for name, rate in report["copy_bytes_per_second"].items())
    return report, f"{verdict}; a copy moves {rates}", int(bool(differ))


def _fit(**options: Any) -> tuple[Any, str, int]:
    report = commands.fit(**options, verbose=_verbose())
    return report, _text(report, "{samples} samples x {partitions} partitions"), 0


def _fit_views(**options: Any) -> tuple[Any, str, int]:
    report = commands.fit_views(**options, verbose=_verbose())
    return report, _text(report, "{samples} samples in {views} views"), 0


def _generate(**options: Any) -> tuple[Any, str, int]:
    report = features.make_partitions(**options, verbose=_verbose())
    return report, _text(report, "{samples} samples x {partitions} partitions"), 0


def _cluster(**options: Any) -> tuple[Any, str, int]:
    report = features.cluster(**options, verbose=_verbose())
    return report, _text(report, "{samples} samples, {partitions} base partitions"), 0


def _fit_segments(**options: Any) -> tuple[Any, str, int]:
    report = commands.fit_segments(**options, verbose=_verbose())
    return report, _text(report, "{samples} samples x {partitions} partitions"), 0


def _score(at_least: list[tuple[str, float]], **options: Any) -> tuple[Any, str, int]:
    report = commands.score(**options)
    report["failed"] = [name for name, least in at_least if report[name] < least]
    lines = [f"{report['samples']} samples", *(f"{name:10} {report[name]:.4f}" for name in commands.SCORES)]
    lines += [f"FAIL: {name} is below {least:g}" for name, least in at_least if report[name] < least]
    return report, "\n".join(lines), int(bool(report["failed"]))


def _text(report: dict[str, Any], samples: str) -> str:
    """Return the table itself, to be piped on; if it went into a file, a line about it."""
    if "table" in report:
        return report["table"].to_csv(index=False).rstrip("\n")
    words = [samples.format(**report), f"ids in {report['ids']!r}" if "ids" in report else "no ids"]
    if "method" in report:
        words.append("{method} on {device}: {clusters} clusters in {seconds:.2f} s".format(**report))
    return ", ".join(words) + " -> " + ", ".join(report[key] for key in ("labels", "out", "plot") if key in report)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpuensemble", description=__doc__, epilog=EXIT)
    parser.add_argument("--version", action="version", version=f"gpuensemble {__version__}")
    commands_of = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Any, summary: str, *examples: str) -> argparse.ArgumentParser:
        lines = "\n".join(f"  gpuensemble {name} {example}".rstrip() for example in examples)
        made = commands_of.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            epilog=f"examples:\n{lines}\n\n{EXIT}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        made.set_defaults(run=run)
        made.add_argument("--json", action="store_true", help="print JSON")
        return made

    one = command("demo", _demo, "every method on bundled data, handwritten digits", "", "--plot digits.png")
    one.add_argument("--partitions", type=int, default=30, metavar="R", help="base partitions (default 30)")
    one.add_argument("--plot", metavar="FILE", help="draw the co-association matrix (PNG, PDF or SVG)")
    _running(one)

    one = command(
        *("cluster", _cluster, "clusters of a table of features: base partitions, and their consensus"),
        *("features.csv -k 10 --out clusters.csv", "counts.npz -k 5 --distance cosine --confidence --out clusters.csv"),
        "iris.csv -k 3 --drop species --labels partitions.csv --plot heat.png --out clusters.csv",
    )
    _clustering(one)

    one = command(
        *("fit", _fit, "the consensus of a table of labels, samples x partitions"),
        *("labels.csv -k 10 --out consensus.csv", "labels.csv -k 10 --method kcc --set utility=entropy"),
        "labels.parquet -k 10 --id barcode --out consensus.parquet --plot heat.png",
    )
    one.add_argument("path", metavar="LABELS", help="the table")
    one.add_argument("--drop", action="append", default=[], metavar="COLUMN", help="leave a column out; repeatable")
    _consensus(one, tuple(registry.of_labels()), "cluster-walk")
    one.add_argument("--confidence", action="store_true", help="a column with the confidence of each label, too")
    one.add_argument("--plot", metavar="FILE", help="draw the co-association matrix (PNG, PDF or SVG)")

    if registry.of_views():
        one = command(
            *("fit-views", _fit_views, "the consensus of several tables of features of the same samples"),
            "genes.csv proteins.csv -k 10 --out consensus.csv",
        )
        one.add_argument("paths", nargs="+", metavar="VIEW", help="a table of numbers, or a sparse matrix in NPZ")
        _consensus(one, tuple(registry.of_views()), "cmvc")

    one = command(
        *("generate", _generate, "base partitions of a table of features"),
        *("features.csv -k 10 --out labels.csv", "counts.npz -r 50 -k 5-20 --distance cosine --out labels.npy"),
        "iris.csv -r 100 -k 3 --drop species --how row-segments --ratio 0.5 --out labels.csv",
    )
    _generating(one)

    one = command(
        *("fit-segments", _fit_segments, "clusters of features that need not fit into memory"),
        *("features.npy -k 10 --labels labels.npy --out consensus.npy",),
        *("features.npy -k 10 --partitions landmark-spectral --labels labels.npy --out consensus.npy",),
        "features.zarr -k 10 --labels labels.npy --out consensus.npy --scheduler tcp://10.0.0.1:8786",
    )
    _segmenting(one)

    one = command(
        *("score", _score, "how well one partition agrees with another"),
        *("truth.csv consensus.csv", "truth.csv consensus.csv --at-least ari=0.8"),
    )
    one.add_argument("truth", metavar="TRUTH", help="a table with one column of labels, and ids if it has any")
    one.add_argument("found", metavar="FOUND", help="another one; rows are matched by their ids")
    text = "the columns of labels; by default the only one, or `label`"
    one.add_argument("--columns", nargs=2, default=(None, None), metavar=("TRUTH", "FOUND"), help=text)
    text = f"exit with 1 if a score ({', '.join(commands.SCORES)}) is lower"
    one.add_argument("--at-least", action="append", default=[], type=_bound, metavar="SCORE=VALUE", help=text)
    _reading(one)

    one = command(
        "doctor", _doctor, "versions, devices, and every kernel and method checked here", "", "--device cuda:1"
    )
    one.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default auto)")

    one = command(
        *("bench", _bench, "kernels and methods timed on every device, beside scikit-learn and SciPy"),
        *("", "--samples 200000 --only SEC --out results.json"),
    )
    one.add_argument("--device", default="auto", help="auto (all that are there), cpu, cuda or cuda:N (default auto)")
    one.add_argument("--samples", type=int, default=20_000, metavar="N", help="default 20000")
    one.add_argument("--repeat", type=int, default=5, metavar="N", help="rounds after the warm-up (default 5)")
    one.add_argument("--only", default="", metavar="TEXT", help="cases whose name contains this")
    one.add_argument("--out", metavar="FILE", help="write the results, the machine and versions as JSON")
    return parser


def _consensus(parser: argparse.ArgumentParser, names: tuple[str, ...], default: str) -> None:
    parser.add_argument("-k", dest="n_clusters", type=int, required=True, metavar="K", help="number of clusters")
    parser.add_argument("--method", choices=names, default=default, help=f"default {default}")
    text = "a parameter of the method, as in Python; repeatable"
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="NAME=VALUE", help=text)
    parser.add_argument("--out", type=_out, metavar="FILE", help="where to write; by default, or for -, CSV on stdout")
    _reading(parser)
    _running(parser)


def _generating(parser: argparse.ArgumentParser) -> None:
    _features(parser)
    text = "partitions (default 20; 100 for those by k-means)"
    parser.add_argument("-r", dest="n_partitions", type=int, metavar="R", help=text)
    text = "clusters of the consensus to come, or LOW-HIGH clusters of the partitions"
    parser.add_argument("-k", dest="clusters", type=_range, required=True, metavar="K", help=text)
    text = "of the features (default 0.5 for random-features) or rows (0.2 for row-segments, 0.8 for subsample)"
    parser.add_argument("--ratio", type=float, help=text)


def _clustering(parser: argparse.ArgumentParser) -> None:
    _features(parser)
    parser.add_argument("-k", dest="n_clusters", type=int, required=True, metavar="K", help="number of clusters")
    parser.add_argument("-r", dest="n_partitions", type=int, default=20, metavar="R", help="partitions (default 20)")
    names = tuple(registry.of_labels())
    parser.add_argument("--method", choices=names, default="sec-entropy", help="of the consensus (default sec-entropy)")
    parser.add_argument("--confidence", action="store_true", help="a column with the confidence of each label, too")
    parser.add_argument("--labels", metavar="FILE", help="write the base partitions, too")
    parser.add_argument("--plot", metavar="FILE", help="draw the co-association matrix (PNG, PDF or SVG)")


def _features(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="FEATURES", help="a table of numbers, or a sparse matrix in NPZ")
    text = "how base partitions are made (default neighbor-graph)"
    parser.add_argument("--how", choices=tuple(WAYS), default="neighbor-graph", help=text)
    text = "cosine: by direction alone, for text and counts"
    parser.add_argument("--distance", choices=("sqeuclidean", "cosine"), default="sqeuclidean", help=text)
    parser.add_argument("--drop", action="append", default=[], metavar="COLUMN", help="leave a column out; repeatable")
    parser.add_argument("--out", type=_out, metavar="FILE", help="where to write; by default, or for -, CSV on stdout")
    _reading(parser)
    _running(parser)


def _segmenting(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", metavar="FEATURES", help="an .npy file or a .zarr folder of numbers: it is never loaded"
    )
    parser.add_argument("-k", dest="n_clusters", type=int, required=True, metavar="K", help="number of clusters")
    parser.add_argument("--labels", required=True, metavar="FILE", help="where the base partitions go (.npy)")
    parser.add_argument("--out", required=True, metavar="FILE", help="where the consensus goes (.npy)")
    text = "how they are made: of random rows, or by landmarks (default segments)"
    parser.add_argument("--partitions", choices=tuple(segments.PARTITIONS), default="segments", help=text)
    text = "partitions (default 100 segments, 20 landmark spectral ones)"
    parser.add_argument("-r", dest="n_partitions", type=int, metavar="R", help=text)
    parser.add_argument("--ratio", dest="row_ratio", type=float, default=0.2, help="of the rows in each (default 0.2)")
    parser.add_argument("--base-k", dest="base_clusters", type=int, metavar="K", help="their clusters (default: as -k)")
    parser.add_argument("--distance", choices=("sqeuclidean", "cosine"), default="sqeuclidean")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="work on this Dask cluster, whose workers see the files")
    parser.add_argument("--checkpoint", metavar="FILE", help="keep the state of the fit here")
    parser.add_argument("--resume", action="store_true", help="go on from the base partitions and the checkpoint there")
    text = "a parameter of SEC, as in Python; repeatable"
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="NAME=VALUE", help=text)
    _running(parser)


def _reading(parser: argparse.ArgumentParser) -> None:
    parser.epilog = f"{FILES}\n\n{parser.epilog}"
    text = "the column of ids, by name, or else by number from 0"
    parser.add_argument("--id", dest="id_column", metavar="COLUMN", help=text)
    text = "no column holds ids: all are data"
    parser.add_argument("--no-ids", dest="id_column", action="store_const", const=False, help=text)
    text = "whether the first line of a text file holds names"
    parser.add_argument("--header", action=argparse.BooleanOptionalAction, default=None, help=text)
    text = "the separator of text: , ; | tab or space; by default that of the ending, or else told by evidence"
    parser.add_argument("--sep", type=_separator, metavar="SEP", help=text)


def _running(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=0, help="of everything random (default 0)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default auto)")


def _out(text: str) -> str | None:
    """Read - as stdout, which is where tables go by default."""
    return None if text == "-" else text


def _separator(text: str) -> str:
    """Read a separator, or its name."""
    found = {"tab": "\t", "\\t": "\t", "space": " "}.get(text, text)
    if found not in SEPARATORS:
        raise argparse.ArgumentTypeError(f"must be , ; | tab or space, got {text!r}")
    return found


def _range(text: str) -> tuple[int, int | None]:
    """Read 10 or 5-20 as one or two numbers."""
    low, dash, high = text.partition("-")
    return int(low), int(high) if dash else None


def _bound(text: str) -> tuple[str, float]:
    """Read ari=0.8 as the name of a score and its least value."""
    name, _, value = text.partition("=")
    if name not in commands.SCORES:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(commands.SCORES)}, got {name!r}")
    return name, float(value)
