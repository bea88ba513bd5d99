"""Commands are run here: what they return is printed, and what they raise becomes a sentence and an exit code."""

import json
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

from gpuensemble._cli import commands, demo, features, reports, warm_up
from gpuensemble._cli.arguments import parser
from gpuensemble._cli.doctor import run as doctor
from gpuensemble._cli.tables import outputs
from gpuensemble._report import report as page
from gpuensemble._tables.files import first_line

# Options that name files, and parameters of methods that do.
READ = ("path", "paths", "truth", "found", "against")
WRITTEN = ("out", "labels", "report", "plot", "checkpoint", "tables")
OF_METHODS = ("out", "checkpoint")
STDIN = "/dev/stdin"  # leads to the file that it comes from, if it is there


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return 0 if it went well, 1 if a check or a score failed, 2 after one sentence on bad input."""
    options = vars(parser().parse_args(arguments))
    name, as_json = options.pop("command"), options.pop("json")
    if name == "bench":
        options["quiet"] = as_json
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            _refuse_overwriting(options)
            report, text, code = RUN[name](**options)
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


def _refuse_overwriting(options: dict[str, Any]) -> None:
    """Raise, before any work, if an output is a file that is read, or two outputs are one file; for all commands."""
    given = [options.get(name) or [] for name in READ]
    read = [path for one in given for path in ([one] if isinstance(one, str) else one)]
    written = [(f"--{name}", options.get(name)) for name in WRITTEN if name != "tables"]
    written += [("--tables", path) for path in page.files_of(options.get("tables"))]
    settings = {} if "checkpoint" in options else commands.parsed(options.get("settings", []))  # else flags set them
    written += [(f"--set {name}", str(settings[name])) for name in OF_METHODS if settings.get(name) is not None]
    outputs.refuse_overwriting([STDIN if path == "-" else path for path in read], written)


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


def _warm_up(device: str) -> tuple[Any, str, int]:
    report = warm_up.run(device)
    return report, warm_up.told(report), 0


def _doctor(device: str) -> tuple[Any, str, int]:
    report = doctor.run(device)
    return report, doctor.table(report), int(report["failed"] > 0)


def _bench(out: str | None, quiet: bool, **options: Any) -> tuple[Any, str, int]:
    outputs.check(out, (".json",))
    report, text, code = commands.bench(**options, quiet=quiet, verbose=_verbose())
    if out is not None:
        outputs.write_json(out, report)
    return report, text, code


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


def _report(**options: Any) -> tuple[Any, str, int]:
    report = reports.of_labels(**options, verbose=_verbose())
    return report, _text(report, "{samples} samples x {partitions} partitions, {clusters} clusters"), 0


def _fit_segments(**options: Any) -> tuple[Any, str, int]:
    report = commands.fit_segments(**options, verbose=_verbose())
    return report, _text(report, "{samples} samples x {partitions} partitions"), 0


def _score(at_least: list[tuple[str, float]], **options: Any) -> tuple[Any, str, int]:
    report = commands.score(**options)
    failed = [(name, least) for name, least in at_least if not report[name] >= least]  # NaN fails, too
    report["failed"] = [name for name, _ in failed]
    lines = [f"{report['samples']} samples", *(f"{name:10} {report[name]:.4f}" for name in commands.SCORES)]
    lines += [f"FAIL: {name} is below {least:g}" for name, least in failed]
    return report, "\n".join(lines), int(bool(report["failed"]))


def _text(report: dict[str, Any], samples: str) -> str:
    """Return the table itself, to be piped on; if it went into a file, a line about it."""
    if report.get("recommended") is not None:  # else a warning has told
        print(f"gpuensemble: {report['why']}", file=sys.stderr)
    if "table" in report:
        return report["table"].to_csv(index=False).rstrip("\n")
    words = [samples.format(**report), f"ids in {report['ids']!r}" if "ids" in report else "no ids"]
    if "method" in report:
        words.append("{method} on {device}: {clusters} clusters in {seconds:.2f} s".format(**report))
    made = [report[key] for key in ("labels", "out", "report", "plot") if key in report]
    return ", ".join(words) + " -> " + ", ".join(made)


RUN: dict[str, Callable[..., tuple[Any, str, int]]] = {
    "demo": _demo,
    "cluster": _cluster,
    "fit": _fit,
    "report": _report,
    "fit-views": _fit_views,
    "generate": _generate,
    "fit-segments": _fit_segments,
    "score": _score,
    "warm-up": _warm_up,
    "doctor": _doctor,
    "bench": _bench,
}
