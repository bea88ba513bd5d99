"""Devices, streams and memory of the stand-in: what is refused where work on two of them is in no order.

A launch goes to the current stream of the current device. Nothing orders two streams but an event that one waits for,
or the host, once it has waited for a stream. The stand-in works at once, so that a missing order would not show in a
result: each piece of memory knows the work that wrote and used it, and a use that is not ordered behind that work is
refused. Memory goes back to the stream that it was taken from; if another one may still use it then, that is
`HAZARDS`' first entry, and the next launch is refused.
"""

import collections
import contextlib
import threading

import numpy as np

HAZARDS = []  # memory that was freed while another stream might still use it
_COUNT = [1]  # devices
_LOCK = threading.RLock()  # streams are threads' own, arrays may be shared


class _Current(threading.local):
    def __init__(self):
        self.device = 0
        self.streams = collections.defaultdict(lambda: NULL)  # of each device
        self.before = []  # what contexts that were entered took the place of


class Stream:
    """A stream of work; `null` has one line of work for each device."""

    def __init__(self, null=False, non_blocking=False):
        if not null and not non_blocking:
            raise NotImplementedError("a stream that the null stream waits for")
        self.null_stream, self.device_id = null, -1 if null else CURRENT.device
        self.line = Line()

    def __enter__(self):
        if self.device_id not in (-1, CURRENT.device):
            raise ValueError(f"the stream is on device {self.device_id}, the current one is {CURRENT.device}")
        CURRENT.before.append((CURRENT.device, CURRENT.streams[CURRENT.device]))
        CURRENT.streams[CURRENT.device] = self
        return self

    def __exit__(self, *error):
        device, before = CURRENT.before.pop()
        CURRENT.streams[device] = before

    def lines(self):
        """The line of work; the null stream's is that of the current device."""
        return NULL_LINES[CURRENT.device] if self.null_stream else self.line

    def record(self, event=None):
        line = self.lines()
        return Event({**line.seen, line: line.time})

    def wait_event(self, event):
        seen = self.lines().seen
        for line, time in event.seen.items():
            seen[line] = max(seen.get(line, 0), time)

    def synchronize(self):
        line = self.lines()
        line.done = line.time
        for other, time in line.seen.items():
            other.done = max(other.done, time)


class Event:
    def __init__(self, seen):
        self.seen = seen


class Line:
    """Work in order: how much was begun, how much of it is done, and how much of others' it comes after."""

    def __init__(self):
        self.time = self.done = 0
        self.seen = {}

    def behind(self, other, time):
        """Whether what comes next here is behind the work of another line up to that time."""
        return other is self or time <= other.done or self.seen.get(other, 0) >= time


NULL = Stream.__new__(Stream)
CURRENT = _Current()
NULL_LINES = collections.defaultdict(Line)
NULL.__init__(null=True)
Stream.null = NULL


def current_line():
    return CURRENT.streams[CURRENT.device].lines()


class Memory:
    """What an array and its views lie in: its device, and the work that wrote and used it."""

    def __init__(self):
        self.device, self.owner = CURRENT.device, current_line()
        self.owner.time += 1
        self.uses = {}
        self.written = self.owner, self.owner.time

    def use(self, write=False):
        """The current stream uses it, in a launch of its own."""
        if HAZARDS:
            raise RuntimeError(HAZARDS.pop())
        if self.device != CURRENT.device:
            rule = "Array device must be same as the current device"
            raise ValueError(f"{rule}: array device = {self.device} while current = {CURRENT.device}")
        self.order(write)

    def order(self, write=False):
        """The next work of the current stream is behind all that it needs to be behind."""
        with _LOCK:
            line = current_line()
            before = [self.written, *(self.uses.items() if write else ())]
            if not all(line.behind(*work) for work in before):
                raise RuntimeError("a stream uses an array that another one may be at work on")
            line.time += 1
            self.uses[line] = line.time
            if write:
                self.written = line, line.time

    def copied(self):
        """The current device has a copy made; from another one, on a null stream, all that both began is waited for."""
        across = self.device != CURRENT.device and CURRENT.streams[CURRENT.device] is NULL
        if across:
            Device(self.device).synchronize()
        self.order()
        if across:
            Device(CURRENT.device).synchronize()

    def read(self):
        """The host waits for it, on the current stream of its device."""
        with Device(self.device):
            self.use()
            CURRENT.streams[CURRENT.device].synchronize()

    def __del__(self):
        with _LOCK:
            unordered = [work for work in (*self.uses.items(), self.written) if not self.owner.behind(*work)]
        if unordered:
            HAZARDS.append("memory was freed to its stream while another one may be at work on it")


class Device:
    """One of the devices; inside of its context it is the current one of the thread."""

    mem_info = (1 << 30, 1 << 31)
    compute_capability = "75"

    def __init__(self, device=None):
        self.id = CURRENT.device if device is None else int(device)
        if not 0 <= self.id < _COUNT[0]:
            raise RuntimeError(f"cudaErrorInvalidDevice: no device {self.id}")

    def __enter__(self):
        CURRENT.before.append(CURRENT.device)
        CURRENT.device = self.id
        return self

    def __exit__(self, *error):
        CURRENT.device = CURRENT.before.pop()

    def __eq__(self, other):
        return isinstance(other, Device) and self.id == other.id

    __hash__ = None

    def synchronize(self):
        """The null stream of the device is waited for; others are not, which is stricter than CUDA."""
        NULL_LINES[self.id].done = NULL_LINES[self.id].time


MULTI_PROCESSOR_COUNT, SHARED_OPTIN = 16, 97  # CUDA's numbers of attributes
ATTRIBUTES = {MULTI_PROCESSOR_COUNT: 128, SHARED_OPTIN: 64 << 10}  # of every device


def attribute(number, device):
    return ATTRIBUTES[number]


@contextlib.contextmanager
def with_attributes(**values):
    """Every device has other processors, or other shared memory that a block may ask for, inside of this context."""
    before = ATTRIBUTES.copy()
    numbers = {"processors": MULTI_PROCESSOR_COUNT, "shared": SHARED_OPTIN}
    ATTRIBUTES.update({numbers[name]: value for name, value in values.items()})
    try:
        yield
    finally:
        ATTRIBUTES.update(before)


def get_current_stream(device_id=-1):
    return CURRENT.streams[CURRENT.device if device_id < 0 else device_id]


def alloc_pinned_memory(nbytes):
    return np.full(nbytes, 0xA5, "uint8").data


@contextlib.contextmanager
def several(count):
    """There are so many devices inside of this context."""
    _COUNT[0], before = count, _COUNT[0]
    try:
        yield
    finally:
        _COUNT[0] = before


def count():
    return _COUNT[0]
