"""Changes kernels on purpose, to show that a test would see it."""

import re


def mutated(code, old, new, expression):
    """The code with `new` in the place of `old`, or as it is if that cannot change this instantiation of a kernel.

    What is in the body of another kernel changes that one alone: this one was compiled before, and is in the store.
    """
    kernel, begin = expression.split("<")[0], code.find(old)
    for match in re.finditer(r"__global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(", code):
        body = _body(code, match.end())
        if match[1] != kernel and body.start < begin and begin + len(old) <= body.stop:
            return code
    return code.replace(old, new)


def _body(code, at):
    """Where the body of the function is whose parameters begin here, from its first brace to its last."""
    begin = code.index("{", at)
    depth = 0
    for brace in re.finditer("[{}]", code[begin:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return range(begin, begin + brace.start())
    raise ValueError("A kernel's body has no end.")
