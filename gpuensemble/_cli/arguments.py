"""The commands and their options, as the command line names and explains them."""

import argparse
import math
import re

from gpuensemble import __version__, segments
from gpuensemble._cli import commands
from gpuensemble._cli.bench.sheets import SHEETS
from gpuensemble._cli.tables.text import SEPARATORS
from gpuensemble.clustering import WAYS
from gpuensemble.estimators._base import registry

ABOUT = "Consensus clustering takes many partitions of the same samples, and finds one that agrees with them."
PLOT = "draw the co-association matrix (PNG, PDF or SVG)"
NUMBERS = "number of clusters, or LOW-HIGH: one of them is chosen"
FILES = """Tables are text (.csv, .tsv, .txt, packed as .gz or .zst if you like), Parquet, NPY or NPZ files, by their
ending; - is text on stdin. Names in the first line and a column of ids are told by evidence: names
occur nowhere below them, ids are called so, or are text that is all different. What was recognised is
said on stderr; what is unclear is refused. NPZ files hold features in X, labels in labels or label, and
ids in id or ids; the only array beside the ids may have any name. Holes in labels are empty cells, NA,
NaN, None, null or -1."""
EXIT = "Exit code: 0, 1 if a check or a score failed, 2 for bad input, with a sentence on stderr."


def parser() -> argparse.ArgumentParser:
    """Make the parser of the whole command line; `command` names the one that was given."""
    whole = argparse.ArgumentParser(prog="gpuensemble", description=ABOUT, epilog=EXIT)
    whole.add_argument("--version", action="version", version=f"gpuensemble {__version__}")
    commands_of = whole.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, summary: str, *examples: str) -> argparse.ArgumentParser:
        lines = "\n".join(f"  gpuensemble {name} {example}".rstrip() for example in examples)
        made = commands_of.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            epilog=f"examples:\n{lines}\n\n{EXIT}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        made.set_defaults(command=name)
        made.add_argument("--json", action="store_true", help="print JSON")
        return made

    _demo(command("demo", "every method on bundled data, handwritten digits", "", "--report report.html"))
    _clustering(
        command(
            *("cluster", "clusters of a table of features: base partitions, and their consensus"),
            "features.csv -k 10 --out clusters.csv",
            "counts.npz -k 5 --distance cosine --confidence --out clusters.csv",
            "iris.csv -k 2-8 --drop species --report report.html --out clusters.csv",
        )
    )
    _fitting(
        command(
            *("fit", "the consensus of a table of labels, samples x partitions"),
            *("labels.csv -k 10 --out consensus.csv", "labels.csv -k 10 --method kcc --set utility=entropy"),
            "labels.parquet -k 10 --id barcode --out consensus.parquet --plot heat.png",
            "cells.h5ad -k 8 --keys leiden_0.2,leiden_0.5 --out cells_out.h5ad",
        )
    )
    _reporting(
        command(
            *("report", "an HTML report on a table of labels: how many clusters, and how sure of each sample"),
            *("labels.csv -k 2-15 --out report.html", "labels.csv -k 10 --out report.html --tables tables"),
        )
    )
    if registry.of_views():
        several = "the consensus of several tables of features of the same samples"
        _fitting_views(command("fit-views", several, "genes.csv proteins.csv -k 10 --out consensus.csv"))
    _generating(
        command(
            *("generate", "base partitions of a table of features"),
            *("features.csv -k 10 --out labels.csv", "counts.npz -r 50 -k 5-20 --distance cosine --out labels.npy"),
            "iris.csv -r 100 -k 3 --drop species --how row-segments --ratio 0.5 --out labels.csv",
        )
    )
    _segmenting(
        command(
            *("fit-segments", "clusters of features that need not fit into memory"),
            "features.npy -k 10 --labels labels.npy --out consensus.npy",
            "features.npy -k 10 --partitions landmark-spectral --labels labels.npy --out consensus.npy",
            "features.zarr -k 10 --labels labels.npy --out consensus.npy --scheduler tcp://10.0.0.1:8786",
        )
    )
    _scoring(
        command(
            *("score", "how well one partition agrees with another"),
            *("truth.csv consensus.csv", "truth.csv consensus.csv --at-least ari=0.8"),
        )
    )
    _doctor(command("warm-up", "kernels compiled before they are needed, once for an installation", ""))
    _doctor(command("doctor", "versions, devices, and every kernel and method checked here", "", "--device cuda:1"))
    _benching(
        command(
            *("bench", "kernels and methods timed on every device, beside scikit-learn and SciPy"),
            *("", "--samples 200000 --only SEC --out results.json", "--against results.json", "--model A100"),
        )
    )
    return whole


def _demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--partitions", type=int, default=30, metavar="R", help="base partitions (default 30)")
    parser.add_argument("--plot", metavar="FILE", help=PLOT)
    text = "an HTML report: how many clusters, and how sure of each sample"
    parser.add_argument("--report", metavar="FILE", help=text)
    _running(parser)


def _fitting(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="LABELS", help="the table, or the cells of an .h5ad file")
    text = "the partitions among the columns of obs in an .h5ad file, with commas between them"
    parser.add_argument("--keys", type=lambda text: text.split(","), metavar="NAMES", help=text)
    text = "the column of obs that the clusters go to (default consensus)"
    parser.add_argument("--key-added", metavar="NAME", help=text)
    parser.add_argument("--drop", action="append", default=[], metavar="COLUMN", help="leave a column out; repeatable")
    _consensus(parser, tuple(registry.of_labels()), "cluster-walk")
    parser.add_argument("--confidence", action="store_true", help="a column with the confidence of each label, too")
    parser.add_argument("--plot", metavar="FILE", help=PLOT)


def _fitting_views(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="VIEW", help="a table of numbers, or a sparse matrix in NPZ")
    _consensus(parser, tuple(registry.of_views()), "cmvc")


def _scoring(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("truth", metavar="TRUTH", help="a table with one column of labels, and ids if it has any")
    parser.add_argument("found", metavar="FOUND", help="another one; rows are matched by their ids")
    text = "the columns of labels; by default the only one, or `label`"
    parser.add_argument("--columns", nargs=2, default=(None, None), metavar=("TRUTH", "FOUND"), help=text)
    text = f"exit with 1 if a score ({', '.join(commands.SCORES)}) is lower"
    parser.add_argument("--at-least", action="append", default=[], type=_bound, metavar="SCORE=VALUE", help=text)
    _reading(parser)


def _doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:N or cuda:all (default auto)")


def _benching(parser: argparse.ArgumentParser) -> None:
    text = "auto (all that are there), cpu, cuda or cuda:N (default auto)"
    parser.add_argument("--device", default="auto", help=text)
    parser.add_argument("--samples", type=int, default=20_000, metavar="N", help="default 20000")
    text = "samples of methods that are n x n (default 300; 2000 with a GPU, which wins from there on)"
    parser.add_argument("--square", type=int, metavar="N", help=text)
    parser.add_argument("--repeat", type=int, default=7, metavar="N", help="rounds after the warm-up (default 7)")
    text = "cases whose name contains this; repeatable"
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help=text)
    text = "of the CPU (default: all, and cases of k-means with one, too)"
    parser.add_argument("--threads", type=int, metavar="N", help=text)
    parser.add_argument("--busy", action="store_true", help="with a process beside it that keeps a core busy")
    parser.add_argument("--out", metavar="FILE", help="write the results, the machine and versions as JSON")
    text = "results of an earlier run: say what got slower by more than noise, and exit with 1 if anything did"
    parser.add_argument("--against", metavar="FILE", help=text)
    text = "time nothing: what counts and data sheets say of this GPU"
    parser.add_argument("--model", choices=tuple(SHEETS), help=text)


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


def _reporting(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="LABELS", help="the table")
    parser.add_argument("-k", dest="clusters", type=_range, required=True, metavar="K", help=NUMBERS)
    names = tuple(registry.of_labels())
    parser.add_argument("--method", choices=names, default="sec-entropy", help="of the consensus (default sec-entropy)")
    parser.add_argument("--out", required=True, metavar="FILE", help="where the report goes (.html)")
    parser.add_argument("--tables", metavar="FOLDER", help="write all its tables, too, as CSV")
    text = "write the consensus, too, with columns on the stability of each sample"
    parser.add_argument("--labels", metavar="FILE", help=text)
    _reading(parser)
    _running(parser)


def _clustering(parser: argparse.ArgumentParser) -> None:
    _features(parser)
    parser.add_argument("-k", dest="clusters", type=_range, required=True, metavar="K", help=NUMBERS)
    parser.add_argument("-r", dest="n_partitions", type=int, default=20, metavar="R", help="partitions (default 20)")
    names = tuple(registry.of_labels())
    parser.add_argument("--method", choices=names, default="sec-entropy", help="of the consensus (default sec-entropy)")
    parser.add_argument("--confidence", action="store_true", help="a column with the confidence of each label, too")
    parser.add_argument("--labels", metavar="FILE", help="write the base partitions, too")
    text = "write an HTML report, too, and columns on the stability of each sample beside the labels"
    parser.add_argument("--report", metavar="FILE", help=text)
    parser.add_argument("--tables", metavar="FOLDER", help="write all tables of the report, too, as CSV")
    parser.add_argument("--plot", metavar="FILE", help=PLOT)


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
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:N or cuda:all (default auto)")


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
    found = re.fullmatch(r"(\d+)(?:-(\d+))?", text, re.ASCII)
    if found is None:
        raise argparse.ArgumentTypeError(f"must be a number K or two, LOW-HIGH, got {text!r}")
    low, high = found.groups()
    return int(low), None if high is None else int(high)


def _bound(text: str) -> tuple[str, float]:
    """Read ari=0.8 as the name of a score and its least value."""
    name, _, value = text.partition("=")
    if name not in commands.SCORES:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(commands.SCORES)}, got {name!r}")
    try:
        least = float(value)
    except ValueError:
        least = math.nan
    if not math.isfinite(least):
        raise argparse.ArgumentTypeError(f"must be SCORE=VALUE, the value a finite number, got {text!r}")
    return name, least
