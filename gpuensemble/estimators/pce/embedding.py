"""The step of F in PCE takes a few Cayley steps, each found from inner products of the rows that it depends on."""

from typing import NamedTuple

from gpuensemble._array import threads
from gpuensemble._array.devices import Array, device_of, namespace
from gpuensemble._kernels.cpu.pce import curve as cpu_curve
from gpuensemble._kernels.cuda.pce import curve as cuda_curve
from gpuensemble.estimators.pce.state import State, twin

CURVE_STEPS = 2  # of the search in one iteration
FRAME_BYTES, DEVICE_BYTES = 1 << 19, 1 << 30  # of Z made at a time: on the CPU it stays in the cache


class Search(NamedTuple):
    """These are the settings of `curve` in _kernels/cpu/pce/curve.py."""

    max_trials: int = 25  # of a step; each is at most half as long as the one before
    decrease: float = 1e-4  # Armijo: the share of the decrease that the slope promises, which a step must reach
    max_turn: float = 100.0  # of step * |W|: a longer step hardly leads further, and costs digits
    noise: float = 1e3  # times eps |g|^2: a |W|^2 below this is nothing but rounding


class _Frames:
    """This makes the rows of Z = [X g T Dg] a block at a time, and keeps those made last."""

    def __init__(self, state: State, mean: Array, gamma: float):
        xp, (n, k) = namespace(state.points), state.points.shape
        size = FRAME_BYTES if device_of(state.points) == "cpu" else DEVICE_BYTES
        self.blocks = threads.spans(n, max(1, size // (4 * k * state.points.itemsize)))
        self.state, self.mean, self.gamma = state, mean, gamma
        self.table = (state.turned * (gamma / state.scale)).astype(state.points.dtype, copy=False)
        self.made = xp.empty((min(n, self.blocks[0].stop), 4 * k), state.points.dtype)
        self.last: tuple = (None, None)

    def rows(self, rows: slice, centre: Array) -> Array:
        """Return some rows of Z, with S = `centre`."""
        state, made = self.state, self.made[: rows.stop - rows.start]
        if not (self.last[0] == rows and self.last[1] is centre):
            x = state.points[rows]
            product = x @ centre.astype(x.dtype, copy=False)
            given = (x, product, self.mean[rows], state.reliability[rows], state.labels[rows], self.table, self.gamma)
            twin(state, cpu_curve, cuda_curve).frame(*given, made)
            self.last = rows, centre
        return made

    def move(self, rows: slice, turn: tuple[Array, Array] | None) -> None:
        """Put [X g] @ move in the place of these rows of X, for a turn that is an S and a move; None leaves them."""
        if turn is not None:
            centre, move = turn
            x = self.state.points[rows]
            namespace(x).matmul(self.rows(rows, centre)[:, : len(move)], move, out=x)


def update_embedding(state: State, mean: Array, gamma: float) -> None:
    """Move F a few steps down tr(F'DF) - 2 tr(F'C) with F'F = s^2 I (Eq. 7, Theorem 1).

    `mean` is that of the state. The host waits for nothing.
    """
    frames, curve = _Frames(state, mean, gamma), twin(state, cpu_curve, cuda_curve).curve
    turn = None
    for j in range(CURVE_STEPS):
        parts = []
        for rows in frames.blocks:
            frames.move(rows, turn)
            z = frames.rows(rows, state.centre)
            parts.append(z.T @ z)
        gram, before = sum(parts[1:], parts[0]).astype("float64", copy=False), state.centre
        move, state.centre, state.step = curve(gram, before, state.step, j % 2 == 0, Search())
        turn = before, move.astype(state.points.dtype, copy=False)
    for rows in frames.blocks:
        frames.move(rows, turn)
