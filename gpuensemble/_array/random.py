"""Random draws come from NumPy's generators on the host, whatever the device."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from gpuensemble._array.messages import shown


def generators(random_state: Any, n: int) -> list[np.random.Generator]:
    """Make n independent generators, the same ones for the same seed."""
    return [np.random.default_rng(child) for child in sequence(random_state).spawn(n)]


def deal(n: int, size: int, n_hands: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Deal each hand `size` of n cards, ascending, from shuffled decks: each is in as many as any other, or one more.

    Where a deck ends inside a hand, the next one starts with other cards.
    """
    deck = rng.permutation(n)
    for _ in range(n_hands):
        hand, deck = deck[:size], deck[size:]
        if len(hand) < size:
            fresh = rng.permutation(n)
            held = _among(hand, n)[fresh]
            fresh = np.concatenate([fresh[~held], fresh[held]])
            need = size - len(hand)
            hand, deck = np.concatenate([hand, fresh[:need]]), fresh[need:]
        yield np.flatnonzero(_among(hand, n))  # ascending


def _among(cards: np.ndarray, n: int) -> np.ndarray:
    """Mark the cards among n."""
    marks = np.zeros(n, bool)
    marks[cards] = True
    return marks


def dealt(n: int, size: int, n_hands: int, random_state: Any) -> tuple[Iterator[np.ndarray], list]:
    """Return hands of `size` of n cards, and a generator to go with each."""
    dealer, draws = sequence(random_state).spawn(2)
    return deal(n, size, n_hands, np.random.default_rng(dealer)), generators(draws, n_hands)


def sequence(random_state: Any) -> np.random.SeedSequence:
    """Return the seed sequence that all draws come from."""
    if isinstance(random_state, np.random.SeedSequence):
        return random_state
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(random_state.integers(0, 2**32, 4).tolist())
    if isinstance(random_state, np.random.RandomState):
        return np.random.SeedSequence(random_state.randint(0, 2**32, 4, np.int64).tolist())
    if random_state is None:
        return np.random.SeedSequence()
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool) and random_state >= 0:
        return np.random.SeedSequence(int(random_state))
    raise ValueError(
        f"`random_state` must be None, an integer of at least 0 or a generator, got {shown(random_state)}."
    )
