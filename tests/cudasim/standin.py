"""A strict stand-in for CuPy on the CPU: NumPy behind arrays that refuse what CuPy refuses, and more.

Its arrays refuse to become NumPy arrays unless asked (`.get()`), to mix with NumPy arrays or lists, and to be assigned
to through an index that names an element twice. `empty` is filled with NaN or a large number. Reductions give 0-d
arrays. Results lie in memory as CuPy's do (`layouts`). Names and keywords that the real CuPy lacks are refused, where
it is installed. `tally` counts what a device is asked to do, and what makes the host wait for it: bool(x), int(x),
float(x), .get(), .item(), .tolist().

`Standin(engine)` takes the place of the module `cupy`; `engine` has the shape of cupy.RawModule and runs kernels on
NumPy buffers.
"""

import contextlib
import functools
import inspect
import operator
import sys
import types

import numpy as np

from cudasim import devices
from cudasim.layouts import laid
from cudasim.shim import Uninitialised
from cudasim.tally import TALLY

try:
    import cupy as real
except ImportError:  # names and keywords are then not checked
    real = None


class ndarray:
    __module__ = "cupy"
    __hash__ = None
    __array_ufunc__ = None  # NumPy leaves mixed expressions to us, and we refuse them

    def __init__(self, host, fresh=False, memory=None):
        self.host = np.asarray(host)
        self.fresh = fresh  # from `empty`, and not written yet
        self.memory = memory or devices.Memory()  # that of the array it is a view of

    def __array__(self, *_args, **_kwargs):
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`.")

    shape = property(lambda self: self.host.shape)
    dtype = property(lambda self: self.host.dtype)
    ndim = property(lambda self: self.host.ndim)
    size = property(lambda self: self.host.size)
    itemsize = property(lambda self: self.host.itemsize)
    nbytes = property(lambda self: self.host.nbytes)
    strides = property(lambda self: self.host.strides)
    flags = property(lambda self: self.host.flags)
    device = property(lambda self: devices.Device(self.memory.device))
    T = property(lambda self: self._view(self.host.T))
    real = property(lambda self: self._view(self.host.real))
    imag = property(lambda self: self._view(self.host.imag))

    def _view(self, host):
        return ndarray(host, memory=self.memory)

    def _found(self, name, found, *given):
        """What a method gives: a view, or the result of a launch."""
        if isinstance(found, np.ndarray) and np.may_share_memory(found, self.host):
            return self._view(found)
        self.memory.use()
        return _wrap(laid(name, found, (self.host, *given), {}))

    def __deepcopy__(self, _memo):
        return self.copy()

    def __len__(self):
        return len(self.host)

    def __iter__(self):
        return (self._view(row) for row in self.host)

    def __repr__(self):
        return f"standin.{self.host!r}"

    def __getitem__(self, index):
        found = self.host[_index(index)]
        TALLY.launch(found, self.host)
        return self._found("getitem", found)

    def __setitem__(self, index, value):
        index = _index(index)
        _refuse_duplicates(self.host, index)
        self.fresh = False
        value = _operand(value)
        self.memory.use(write=True)
        TALLY.in_place(self.host[index] if np.ndim(self.host[index]) else self.host[:0], value)
        self.host[index] = value

    def get(self):
        TALLY.read(self.host.nbytes)
        self.memory.read()
        return self.host.copy()

    def set(self, host):
        """A copy from the host, under way on the current stream."""
        if not isinstance(host, np.ndarray) or (host.dtype, host.shape) != (self.dtype, self.shape):
            raise TypeError("only an array of NumPy of the same type and shape can be set")
        TALLY.up += host.nbytes
        self.memory.use(write=True)
        self.fresh = False
        self.host[...] = host

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if real is not None and not hasattr(real.ndarray, name):
            raise AttributeError(f"cupy.ndarray has no attribute {name!r}")
        method = getattr(self.host, name)

        def call(*args, **kwargs):
            if name in ("item", "tolist"):
                TALLY.read(self.host.nbytes)
                self.memory.read()
                return method(*args, **kwargs)
            args, kwargs = _arguments(args, kwargs)
            if name == "view":
                _refuse_view(self.host, *args, **kwargs)
            found = method(*args, **kwargs)
            TALLY.launch(found, self.host, args, name=name)
            return self._found(name, found, *args)

        return call


def _host_value(convert):
    def method(self):
        TALLY.read(self.host.nbytes)
        self.memory.read()
        return convert(self.host.item())

    return method


def _unary(function):
    return lambda self: _computed(function, _operand(self))


def _binary(function):
    return lambda self, other: _computed(function, _operand(self), _operand(other))


def _swapped(function):
    return lambda self, other: _computed(function, _operand(other), _operand(self))


def _in_place(function):
    def method(self, other):
        other = _operand(other)
        self.memory.use(write=True)
        self.host = function(self.host, other)
        TALLY.in_place(self.host, other, name=function.__name__)
        return self

    return method


CONVERSIONS = {"bool": bool, "int": int, "float": float, "complex": complex, "index": operator.index}
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor")
ARITHMETIC += ("lshift", "rshift")

for _name, _convert in CONVERSIONS.items():
    setattr(ndarray, f"__{_name}__", _host_value(_convert))
for _name in ("neg", "pos", "abs", "invert"):
    setattr(ndarray, f"__{_name}__", _unary(getattr(operator, _name)))
for _name in (*COMPARISONS, *ARITHMETIC):
    setattr(ndarray, f"__{_name}__", _binary(getattr(operator, f"__{_name}__")))
for _name in ARITHMETIC:
    setattr(ndarray, f"__r{_name}__", _swapped(getattr(operator, f"__{_name}__")))
    setattr(ndarray, f"__i{_name}__", _in_place(getattr(operator, f"__i{_name}__")))


def _wrap(value):
    if isinstance(value, np.ndarray | np.generic):
        return ndarray(value)
    if isinstance(value, tuple | list):
        return type(value)(map(_wrap, value)) if type(value) in (tuple, list) else tuple(map(_wrap, value))
    return value


def _computed(function, *operands):
    value = function(*operands)
    TALLY.launch(value, *operands, name=function.__name__)
    if function is operator.__matmul__:
        TALLY.product(*operands, value)
    return _wrap(laid("operator", value, (), {}))


def _operand(value):
    """What an expression may meet: our arrays and numbers."""
    if isinstance(value, ndarray):
        value.memory.use()
        return value.host
    if isinstance(value, np.generic | int | float | complex):
        return value
    raise TypeError(f"Unsupported type {type(value)}")


def _argument(value):
    """What a function may be given: our arrays, alone or in a list, and anything that is no array."""
    if isinstance(value, np.ndarray):
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    if isinstance(value, ndarray):
        value.memory.use()
        return value.host
    if isinstance(value, list | tuple):
        return type(value)(map(_argument, value))
    return value


def _arguments(args, kwargs, convert=None):
    """All arguments of a call, converted; `convert` is for those by position."""
    return tuple(map(convert or _argument, args)), {key: _argument(value) for key, value in kwargs.items()}


def _refuse_view(host, dtype=None):
    if dtype is not None and np.dtype(dtype).itemsize != host.itemsize and not host.flags.c_contiguous:
        raise ValueError("To change to a dtype of a different size, the array must be C-contiguous")


def _index(index):
    if isinstance(index, tuple):
        return tuple(map(_index, index))
    if isinstance(index, np.ndarray | list):
        raise IndexError(f"arrays used as indices must be CuPy's, got {type(index)}")
    return _operand(index) if isinstance(index, ndarray) else index


def _refuse_duplicates(target, index):
    parts = index if isinstance(index, tuple) else (index,)
    if any(isinstance(part, np.ndarray) and part.dtype.kind in "iu" for part in parts):
        places = np.arange(target.size).reshape(target.shape)[index]
        if len(np.unique(places)) != places.size:
            raise IndexError("an index names an element twice: the result would be undefined on a device")


def _cholesky(matrix):
    """CuPy's factor: of a matrix that is not positive definite it is no factor, and nothing says so."""
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        factor = np.tril(matrix)
    for j in range(len(factor)):
        pivot = factor[j, j] - factor[j, :j] @ factor[j, :j]
        if not pivot > 0:
            break
        factor[j:, j] = (factor[j:, j] - factor[j:, :j] @ factor[j, :j]) / pivot**0.5
    return factor


OTHERWISE = {"cupy.linalg.cholesky": _cholesky}  # what NumPy does otherwise than CuPy


class _Namespace(types.ModuleType):
    """numpy's functions under CuPy's names: `xp`, and `xp.linalg` and `xp.fft` below it."""

    def __init__(self, name, host, device):
        super().__init__(name)
        self._host, self._device = host, device

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if self._device is not None and not hasattr(self._device, name):
            raise AttributeError(f"{self.__name__} has no attribute {name!r}")
        value = OTHERWISE.get(f"{self.__name__}.{name}") or getattr(self._host, name)
        if isinstance(value, types.ModuleType):
            return _Namespace(f"{self.__name__}.{name}", value, getattr(self._device, name, None))
        if isinstance(value, type) or not callable(value):
            return value
        return self._function(name, value)

    def _function(self, name, function):
        def call(*args, **kwargs):
            self._check_keywords(name, function, kwargs)
            given = [x for x in (*args, kwargs.get("out")) if isinstance(x, ndarray)]
            args, kwargs = _arguments(args, kwargs, _operand if isinstance(function, np.ufunc) else None)
            found = function(*args, **kwargs)
            out = kwargs.get("out")
            whole = f"{self.__name__}.{name}"
            TALLY.launch(found, args, name=whole) if out is None else TALLY.in_place(out, *args, name=whole)
            if name == "matmul":
                TALLY.product(*args, found)
            if isinstance(found, np.ndarray):
                for x in given:
                    if np.may_share_memory(found, x.host):
                        return x._view(found)
            return _wrap(laid(whole, found, args, kwargs))

        return call

    def _check_keywords(self, name, function, kwargs):
        if self._device is None or not kwargs:
            return
        allowed = {"out", "dtype", "casting"}
        if not isinstance(function, np.ufunc):
            allowed = set(inspect.signature(getattr(self._device, name)).parameters)
        if unknown := set(kwargs) - allowed:
            raise TypeError(f"{self.__name__}.{name} has no keyword {', '.join(sorted(unknown))}")


def _garbage(dtype):
    """What nobody should find of use in memory that was not written."""
    dtype = np.dtype(dtype)
    return np.nan if dtype.kind in "fc" else dtype.kind == "b" or np.iinfo(dtype).max // 3


class Standin(_Namespace):
    """What `import cupy` gives while a test runs on the stand-in device."""

    ndarray = ndarray

    def __init__(self, engine):
        super().__init__("cupy", np, real)
        self._engine = engine
        self.cuda = types.SimpleNamespace(
            is_available=lambda: True,
            Device=devices.Device,
            Stream=devices.Stream,
            get_current_stream=devices.get_current_stream,
            alloc_pinned_memory=devices.alloc_pinned_memory,
            **dict.fromkeys(("cublas", "cusolver", "cufft")),
            runtime=types.SimpleNamespace(
                getDeviceCount=devices.count,
                memGetInfo=lambda: (1 << 33, 1 << 34),
                cudaDevAttrMultiProcessorCount=devices.MULTI_PROCESSOR_COUNT,
                cudaDevAttrMaxSharedMemoryPerBlockOptin=devices.SHARED_OPTIN,
                deviceGetAttribute=devices.attribute,
                getDeviceProperties=lambda index: {"name": b"stand-in"},
                driverGetVersion=lambda: 0,
                runtimeGetVersion=lambda: 0,
            ),
        )

    def asarray(self, value, dtype=None):
        """The one way from the host to the device; what is on the device already is not copied."""
        if hasattr(value, "__cuda_array_interface__"):
            return ndarray(np.asarray(types.SimpleNamespace(__array_interface__=value.__cuda_array_interface__)))
        if isinstance(value, ndarray):
            value.memory.copied()
            return ndarray(np.array(value.host, dtype=dtype))
        TALLY.up += np.asarray(value, dtype).nbytes
        return ndarray(np.array(value, dtype=dtype))

    array = asarray

    def ascontiguousarray(self, value):
        return ndarray(np.ascontiguousarray(_operand(value)))

    def asnumpy(self, value):
        return value.get()

    def empty(self, shape, dtype=float):
        return ndarray(np.full(shape, _garbage(dtype), dtype), fresh=True)

    def empty_like(self, value):
        return ndarray(np.full_like(_operand(value), _garbage(value.dtype)), fresh=True)

    def get_default_memory_pool(self):
        return types.SimpleNamespace(free_all_blocks=lambda: None, total_bytes=lambda: 0, free_bytes=lambda: 0)

    def RawModule(self, *, code, options, name_expressions):
        module = self._engine(code=code, options=options, name_expressions=name_expressions)
        return types.SimpleNamespace(get_function=lambda expression: _Kernel(module.get_function(expression)))


class _Kernel:
    """A kernel launch: our arrays become buffers; NumPy's arrays are refused, as they would be no device pointers."""

    def __init__(self, function):
        self.function = function

    @property
    def max_dynamic_shared_size_bytes(self):
        return self.function.max_dynamic_shared_size_bytes

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, value):
        static = getattr(self.function, "static_bytes", 0)  # an engine that compiles no PTX does not know
        if not 0 <= value <= devices.ATTRIBUTES[devices.SHARED_OPTIN] - static:
            raise ValueError(f"CUDA_ERROR_INVALID_VALUE: {value} bytes beside {static} static ones")
        self.function.max_dynamic_shared_size_bytes = value

    def __call__(self, grid, block, args, *, shared_mem=0):
        self.function(grid, block, tuple(map(self._argument, args)), shared_mem=shared_mem)
        TALLY.kernel(getattr(self.function, "traffic", None))
        for value in args:
            if isinstance(value, ndarray):
                value.fresh = False

    @staticmethod
    def _argument(value):
        if isinstance(value, ndarray):
            if not value.flags.c_contiguous:
                raise TypeError("a kernel argument must be contiguous")
            value.memory.use(write=value.fresh)
            return value.host.view(Uninitialised) if value.fresh else value.host
        if isinstance(value, np.generic):
            return value
        raise TypeError(f"Unsupported type {type(value)}")


@functools.cache
def standin(engine):
    """One stand-in for each engine, so that its kernels are built once."""
    return Standin(engine)


@contextlib.contextmanager
def installed(engine):
    """`cupy` is the stand-in inside this context; yields it."""
    before = sys.modules.get("cupy")
    sys.modules["cupy"] = module = standin(engine)
    try:
        yield module
    finally:
        del sys.modules["cupy"]
        if before is not None:
            sys.modules["cupy"] = before
