"""Memory traffic of a kernel that ptx.py executes: sectors of global memory, wavefronts of shared memory; no caches."""

from dataclasses import dataclass, field

import numpy as np

SECTOR = 32  # bytes
BANKS = 32  # of shared memory; a wavefront serves one word of 4 bytes of each
WORD = 4
WARP = 32


@dataclass
class Access:
    """Traffic of one instruction to or from one argument, summed over the warps that executed it."""

    instruction: str
    argument_index: int
    executions: int = 0
    requested_bytes: int = 0
    sectors: int = 0
    ideal_sectors: int = 0  # if each run of neighbouring addresses started on a sector

    def add(self, warps, offsets, width):
        """Counts an access of `width` bytes at each offset, by the warp at the same place of `warps`."""
        keys = np.unique((warps << 40) | offsets)
        breaks = np.flatnonzero(np.diff(keys) != width) + 1
        runs = np.diff(np.concatenate(([0], breaks, [keys.size]))) * width
        self.executions += 1 + int(np.count_nonzero(np.diff(keys >> 40)))
        self.requested_bytes += offsets.size * width
        self.sectors += 1 + int(np.count_nonzero(np.diff(keys // SECTOR)))
        self.ideal_sectors += int((-(-runs // SECTOR)).sum())


@dataclass
class Shared:
    """Traffic of one instruction to or from shared memory, summed over the warps that executed it."""

    instruction: str
    executions: int = 0
    wavefronts: int = 0  # words of one bank come one after the other, lanes that read one word together
    ideal_wavefronts: int = 0  # if no two words met in a bank

    def add(self, lanes, offsets, width, atomic):
        """Counts an access of `width` bytes at each offset; wide ones take a half or a quarter of a warp at a time."""
        words = max(1, width // WORD)
        turn = lanes // (WARP // words)
        bank = offsets // WORD % BANKS
        keys = turn * (1 << 40) + offsets // WORD
        if not atomic:  # atomics on one word wait for each other
            keys, first = np.unique(keys, return_index=True)
            turn, bank = turn[first], bank[first]
        turns, place = np.unique(turn, return_inverse=True)
        load = np.zeros((len(turns), BANKS), int)
        for word in range(words):
            np.add.at(load, (place, (bank + word) % BANKS), 1)
        self.executions += len(np.unique(lanes // WARP))
        self.wavefronts += int(load.max(axis=1).sum())
        self.ideal_wavefronts += len(turns)


@dataclass
class Traffic:
    """What a launch moves, by instruction and argument."""

    loads: dict = field(default_factory=dict)
    stores: dict = field(default_factory=dict)
    atomics: dict = field(default_factory=dict)
    shared: dict = field(default_factory=dict)

    def add(self, kind, statement, argument, lanes, offsets, width):
        """Counts what some lanes do; `kind` is loads, stores or atomics, and the argument of shared memory None."""
        if argument is None:
            shared = self.shared.setdefault(statement.at, Shared(statement.text))
            shared.add(lanes, offsets, width, kind == "atomics")
        else:
            known = getattr(self, kind)
            access = known.setdefault((statement.at, argument), Access(statement.text, argument))
            access.add(lanes // WARP, offsets, width)
