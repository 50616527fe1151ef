"""Draws of topics in vector instructions: the only file that speaks LLVM.

A token's topic is drawn from K weights, which are summed up and searched. Numba's loops do that number by number,
because each sum needs the one before. Here the weights go in ``LANES`` lanes: lane j has those of the topics k with
k mod LANES = j, and sums up its own,

    heights[k] = weight[k] + heights[k - LANES]

a whole vector at a time. A uniform number then chooses a lane by the sums of the lanes, and a topic by the heights of
that lane: both searches count the heights that are not above it, without a branch that a processor could guess wrongly.
Several documents at once fill the time that one would wait for memory.

LLVM turns vectors of 8 numbers into whatever the processor has: one instruction of AVX, two of NEON or SSE.
``plain_draw`` is the same arithmetic in the same order as an ordinary loop, for processors and compilers that cannot do
that, and for the tests: both give the same bits. SCIROCCO_VECTORS=off chooses it.

Rows are padded to a multiple of ``LANES``, and weights of the padding must be 0.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from scirocco.core.compiled import inlined, jit, uncached

LANES = 8
LINE = 16  # numbers of 4 bytes in a line of the cache
F32, I32, I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
VECTOR = ir.VectorType(F32, LANES)


def padded(topics: int) -> int:
    """The length of a row of so many topics."""
    return -(-topics // LANES) * LANES


class _Emit:
    """The instructions of one draw, for ``documents`` at once."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        self.context, self.builder, self.types, self.args = context, builder, signature.args, args

    def array(self, i: int) -> Any:
        return self.context.make_array(self.types[i])(self.context, self.builder, value=self.args[i])

    def row(self, array: Any, number: Any, width: Any) -> Any:
        """Where a row of a contiguous array begins."""
        return self.builder.gep(array.data, [self.builder.mul(number, width)])

    def load(self, row: Any, offset: Any, kind: Any = F32) -> Any:
        """A vector of floating numbers, from anywhere; whole ones are converted."""
        b = self.builder
        place = b.bitcast(b.gep(row, [offset]), ir.VectorType(kind, LANES).as_pointer())
        found = b.load(place)
        found.align = 4
        return found if kind is F32 else b.sitofp(found, VECTOR)

    def store(self, vector: Any, row: Any, offset: Any) -> None:
        b = self.builder
        b.store(vector, b.bitcast(b.gep(row, [offset]), VECTOR.as_pointer())).align = 4

    def spread(self, number: Any) -> Any:
        """A vector with the same number in all lanes."""
        b, nothing = self.builder, ir.Constant(VECTOR, ir.Undefined)
        first = b.insert_element(nothing, number, ir.Constant(I32, 0))
        return b.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(I32, LANES), [0] * LANES))

    def summed(self, vector: Any) -> Any:
        """Each lane plus all lanes before it."""
        b, zeros = self.builder, ir.Constant(VECTOR, [0.0] * LANES)
        for shift in (1, 2, 4):
            moved = [LANES] * shift + list(range(LANES - shift))  # what moves in is 0
            vector = b.fadd(vector, b.shuffle_vector(vector, zeros, ir.Constant(ir.VectorType(I32, LANES), moved)))
        return vector

    def loop(self, count: Any, starts: list[Any], body: Callable[[Any, list[Any]], list[Any]]) -> list[Any]:
        """``count`` turns, at least one, of values that each turn makes new."""
        b, before = self.builder, self.builder.block
        head, after = b.append_basic_block("turn"), b.append_basic_block("after")
        b.branch(head)
        b.position_at_end(head)
        turn, values = b.phi(I64), [b.phi(start.type) for start in starts]
        made = body(turn, values)
        following = b.add(turn, ir.Constant(I64, 1))
        for value, start, new in zip([turn, *values], [ir.Constant(I64, 0), *starts], [following, *made], strict=True):
            value.add_incoming(start, before)
            value.add_incoming(new, b.block)
        b.cbranch(b.icmp_signed("<", following, count), head, after)
        b.position_at_end(after)
        return made


def _emit_draw(emit: _Emit, documents: int, collapsed: bool) -> Any:
    b, each, lanes = emit.builder, range(documents), ir.Constant(I64, LANES)
    near, table, heights = emit.array(0), emit.array(2), emit.array(5)
    width = b.extract_value(near.shape, 1)
    blocks = b.udiv(width, lanes)
    words, betas, uniforms = ([b.extract_value(emit.args[i], j) for j in each] for i in (3, 4, 6))
    near_rows = [emit.row(near, ir.Constant(I64, i), width) for i in each]
    height_rows = [emit.row(heights, ir.Constant(I64, i), width) for i in each]
    table_rows = [emit.row(table, word, width) for word in words]
    scale = emit.array(1).data
    kind = I32 if collapsed else F32
    spread = [emit.spread(beta) for beta in betas] if collapsed else []

    def add_up(turn: Any, sums: list[Any]) -> list[Any]:
        offset = b.mul(turn, lanes)
        common = emit.load(scale, offset) if collapsed else None
        new = []
        for i in each:
            weight = emit.load(table_rows[i], offset, kind)
            if collapsed:
                weight = b.fmul(b.fadd(weight, spread[i]), common)
            new.append(b.fadd(sums[i], b.fmul(emit.load(near_rows[i], offset), weight)))
            emit.store(new[-1], height_rows[i], offset)
        return new

    sums = emit.loop(blocks, [ir.Constant(VECTOR, [0.0] * LANES)] * documents, add_up)
    chosen, rest, last = [], [], ir.Constant(I64, LANES - 1)
    for i in each:
        ends = emit.summed(sums[i])
        level = b.fmul(uniforms[i], b.extract_element(ends, ir.Constant(I32, LANES - 1)))
        below = b.bitcast(b.fcmp_ordered("<=", ends, emit.spread(level)), ir.IntType(LANES))
        lane = b.zext(b.ctpop(below), I64)
        lane = b.select(b.icmp_signed(">", lane, last), last, lane)
        begins = b.fsub(ends, sums[i])
        chosen.append(lane)
        rest.append(b.fsub(level, b.extract_element(begins, b.trunc(lane, I32))))

    def search(turn: Any, found: list[Any]) -> list[Any]:
        offset = b.mul(turn, lanes)
        heights = [b.load(b.gep(height_rows[i], [b.add(offset, chosen[i])])) for i in each]
        return [b.add(found[i], b.zext(b.fcmp_ordered("<=", heights[i], rest[i]), I64)) for i in each]

    found = emit.loop(blocks, [ir.Constant(I64, 0)] * documents, search)
    topics = [b.add(b.mul(found[i], lanes), chosen[i]) for i in each]
    return emit.context.make_tuple(b, types.UniTuple(types.int64, documents), topics)


def _vector_draw(documents: int, collapsed: bool) -> Any:
    @intrinsic
    def draw(
        typing: Any, near: Any, scale: Any, table: Any, words: Any, betas: Any, heights: Any, uniforms: Any
    ) -> Any:
        several = types.UniTuple(types.int64, documents), types.UniTuple(types.float32, documents)
        signature = several[0](near, scale, table, *several, heights, several[1])
        return signature, lambda *given: _emit_draw(_Emit(*given), documents, collapsed)

    return draw


def plain_draw(documents: int, collapsed: bool) -> Any:
    """The draw as an ordinary loop, with the same bits."""

    @inlined
    def one(near: Any, scale: Any, table: Any, word: Any, beta: Any, heights: Any, uniform: Any, i: int) -> Any:
        width = near.shape[1]
        ends = np.zeros(LANES, np.float32)
        for k in range(width):
            weight = (np.float32(table[word, k]) + beta) * scale[k] if collapsed else table[word, k]
            weight *= near[i, k]
            heights[i, k] = weight + heights[i, k - LANES] if k >= LANES else np.float32(0.0) + weight
        for j in range(LANES):
            ends[j] = heights[i, width - LANES + j]
        own = ends.copy()
        for shift in (1, 2, 4):
            for j in range(LANES - 1, shift - 1, -1):
                ends[j] += ends[j - shift]
        level = uniform * ends[LANES - 1]
        lane = 0
        for j in range(LANES):
            lane += ends[j] <= level
        lane = min(lane, LANES - 1)
        rest = level - (ends[lane] - own[lane])
        found = 0
        for k in range(lane, width, LANES):
            found += heights[i, k] <= rest
        return np.int64(found * LANES + lane)

    if documents == 1:

        @inlined
        def draw(
            near: Any, scale: Any, table: Any, words: Any, betas: Any, heights: Any, uniforms: Any
        ) -> Any:  # fmt: skip
            return (one(near, scale, table, words[0], betas[0], heights, uniforms[0], 0),)

    else:

        @inlined
        def draw(
            near: Any, scale: Any, table: Any, words: Any, betas: Any, heights: Any, uniforms: Any
        ) -> Any:  # fmt: skip
            return (
                one(near, scale, table, words[0], betas[0], heights, uniforms[0], 0),
                one(near, scale, table, words[1], betas[1], heights, uniforms[1], 1),
            )

    return draw


VECTORS = os.environ.get("SCIROCCO_VECTORS", "on") != "off"

# The cache of compiled code does not know which draw a kernel has: only one of both may be in it.
kernel = jit if VECTORS else uncached
"""Compile a function that draws."""


def make_draw(documents: int, *, collapsed: bool) -> Any:
    """A function for compiled code that draws a topic for one token of each of one or two documents.

    ``draw(near, scale, table, words, betas, heights, uniforms)`` takes topic k for document i with a probability
    proportional to

        near[i, k] (table[words[i], k] + betas[i]) scale[k]     collapsed; ``table`` has whole numbers of 4 bytes
        near[i, k] table[words[i], k]                           otherwise

    ``heights`` is scratch space like ``near``. Rounding can make a topic of the padding the answer once in millions of
    draws: the caller must look.
    """
    return (_vector_draw if VECTORS else plain_draw)(documents, collapsed)


@intrinsic
def prefetch(typing: Any, table: Any, row: Any, column: Any) -> Any:
    """Ask for the line of memory with ``table[row, column]``, to be there when it is needed."""

    def emitted(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = _Emit(context, builder, signature, args).array(0)
        place = builder.add(builder.mul(args[1], builder.extract_value(array.shape, 1)), args[2])
        pointer = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, I32, I32, I32])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        line = builder.bitcast(builder.gep(array.data, [place]), pointer)
        builder.call(function, [line, *(ir.Constant(I32, n) for n in (1, 3, 1))])  # for writing, to keep, of data
        return context.get_dummy_value()

    return types.void(table, types.int64, types.int64), emitted
