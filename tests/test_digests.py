"""SEC and KCC from a given start have the bits that tests/digests.json was shipped with, on every machine."""

import json

import pytest

import digests

KNOWN = json.loads(digests.FILE.read_text())


@pytest.fixture(scope="module")
def found():
    return {name: digests.digest(fitted) for name, fitted in digests.from_a_start()}


def test_every_start_has_a_digest(found):
    assert len(found) == len(digests.FROM_A_START)
    assert found.keys() <= KNOWN.keys()


@pytest.mark.parametrize("name", digests.FROM_A_START)
def test_the_bits_are_those_that_were_shipped(found, name):
    name = f"{name}, from a start"
    assert found[name] == KNOWN[name]
