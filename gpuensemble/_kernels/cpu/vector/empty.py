"""Kernels make arrays by `empty`: Numba's `np.empty` is compiled anew for every type, with all that it may complain of.

So are methods of arrays, such as `sum` and `min`, and assignments of slices to slices: a loop costs nothing.
"""

from numba import types
from numba.core import cgutils
from numba.np import arrayobj

from gpuensemble._kernels.cpu.vector.emitter import intrinsic
from gpuensemble._kernels.cpu.vector.tiles import LINE


@intrinsic
def empty(typing, shape, dtype):
    """Return an array with anything in it, whose first entry is on a cache line; `shape` is a number, or a tuple."""
    ndim = len(shape) if isinstance(shape, types.BaseTuple) else 1
    kind = types.Array(dtype.dtype, ndim, "C")
    taken = types.UniTuple(types.intp, ndim) if isinstance(shape, types.BaseTuple) else types.intp

    def generate(context, builder, signature, values):
        sizes = cgutils.unpack_tuple(builder, values[0]) if isinstance(shape, types.BaseTuple) else values[:1]
        item = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(dtype.dtype)))
        strides = [item]
        for size in reversed(sizes):
            strides.insert(0, builder.mul(strides[0], size))
        align = context.get_constant(types.uint32, LINE)
        memory = context.nrt.meminfo_alloc_aligned(builder, strides[0], align)
        array = arrayobj.make_array(kind)(context, builder)
        data = builder.bitcast(context.nrt.meminfo_data(builder, memory), array.data.type)
        arrayobj.populate_array(array, data=data, shape=sizes, strides=strides[1:], itemsize=item, meminfo=memory)
        return array._getvalue()

    return kind(taken, dtype), generate
