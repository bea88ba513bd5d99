"""Docstrings of the public names: every parameter is documented, and the first sentence says what the name is for."""

import inspect
import re

import pytest

import gpuensemble as ge

HEADING = re.compile(r"^(\w[\w ]*)\n-{4,}\n", re.MULTILINE)
FORMULA = re.compile(r" [=@^] |\|\w|\w\|")


def public():
    """Every public name, modules opened, with its object: those of `__all__`, else those that the module defines."""
    for name in ge.__all__:
        found = getattr(ge, name)
        if not inspect.ismodule(found):
            yield name, found
            continue
        own = [n for n, o in vars(found).items() if getattr(o, "__module__", "") == found.__name__]
        names = getattr(found, "__all__", [n for n in own if not n.startswith("_")])
        yield from ((f"{name}.{n}", getattr(found, n)) for n in names)


def callables():
    """The public names, and the methods that are ours of those that are classes."""
    for name, found in public():
        yield name, found
        if inspect.isclass(found):
            for method, function in inspect.getmembers(found, inspect.isroutine):
                if not method.startswith("_") and str(getattr(function, "__module__", "")).startswith("gpuensemble"):
                    yield f"{name}.{method}", function


def described(doc):
    """The names that "Parameters" or "Attributes" explain; of a docstring of one paragraph, those in backticks."""
    if "\n" not in doc or not HEADING.search(doc):
        return set(re.findall(r"`(\w+)`", doc))
    parts = HEADING.split(doc)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    text = sections.get("Parameters", "") + "\n" + sections.get("Attributes", "")
    entries = re.findall(r"^(\S.*)\n +\S", text, re.MULTILINE)
    return {name.strip().lstrip("*") for entry in entries for name in entry.split(" : ")[0].split(",")}


ALL = dict(callables())


def test_there_are_names_to_look_at():
    assert {"SEC", "SEC.fit", "Membership.count", "metrics.nmi", "plot.cdf", "segments.consensus"} < set(ALL)


@pytest.mark.parametrize("name", ALL)
def test_every_parameter_is_documented(name):
    parameters = set(inspect.signature(ALL[name]).parameters) - {"self"}
    assert parameters <= described(inspect.getdoc(ALL[name]))


@pytest.mark.parametrize("name", ALL)
def test_the_first_sentence_says_what_it_is_for(name):
    first = inspect.getdoc(ALL[name]).split("\n\n")[0].split(": ")[0]
    assert len(first.split()) >= 3
    assert not FORMULA.search(first)


@pytest.mark.parametrize(
    ("doc", "names"),
    [
        ("Do it to `x`.", {"x"}),
        ("Do it.\n\nParameters\n----------\nX, y : arrays\n    Data.\n**more\n    Rest.", {"X", "y", "more"}),
        ("Do it to `x`.\n\nParameters\n----------\nx : int\ny : int\n    One.", {"y"}),
        ("Do it to `x`.\n\nReturns\n-------\nx : int\n    One.", set()),
    ],
)
def test_what_counts_as_documented(doc, names):
    assert described(doc) == names
