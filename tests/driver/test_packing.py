"""Columns of packets against the manifest's gather and scatter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pinion.driver.memory import Pool, aligned
from pinion.driver.packing import BLOCK, LARGE, flatten, record_columns
from pinion.link import Array

LOWER = tuple(i * 7 + j for i in range(7) for j in range(i + 1))
ARRAYS = (
    Array(name="q", shape=(7,), unit="rad"),
    Array(name="minv", shape=(7, 7), unit="1", sent=LOWER, symmetric=True),
    Array(name="energy", shape=(), unit="J"),
    Array(name="grad", shape=(7, 2), unit="1", sent=(1, 2, 9), constants=((0, 1.5), (13, -2.0))),
    Array(name="fixed", shape=(3,), unit="m", sent=(), constants=((1, 4.0),)),
    Array(name="full", shape=(2, 3), unit="kg"),
)
WORDS = sum(array.words for array in ARRAYS)


def values(count: int, seed: int, dtype: Any = np.float32) -> dict[str, np.ndarray]:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    return {a.name: rng.normal(size=(count, *a.shape)).astype(dtype) for a in ARRAYS}


def packed(arrays: dict[str, np.ndarray], count: int, first: int = 0) -> np.ndarray:
    columns = record_columns(ARRAYS)
    words = np.full((count, WORDS), np.nan, dtype=np.float32)
    for column, array in zip(columns, flatten(columns, arrays), strict=True):
        column.pack(words, array, first)
    return words


def gathered(arrays: dict[str, np.ndarray]) -> np.ndarray:
    parts = [a.gather(arrays[a.name]).reshape(len(arrays[a.name]), a.words) for a in ARRAYS]
    count = max(len(part) for part in parts)
    parts = [np.broadcast_to(part, (count, part.shape[1])) for part in parts]
    return np.concatenate(parts, axis=1).astype(np.float32)


@pytest.mark.parametrize("count", [1, 2, 31, 33, BLOCK, 2 * BLOCK + 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int16])
def test_packing_is_the_manifests_gather(count: int, dtype: Any) -> None:
    arrays = values(count, seed=count, dtype=dtype)
    assert np.array_equal(packed(arrays, count), gathered(arrays))


def test_packets_take_their_part_of_a_batch() -> None:
    arrays = values(100, seed=1)
    assert np.array_equal(packed(arrays, 40, first=57), gathered(arrays)[57:97])


def test_arrays_that_are_not_contiguous() -> None:
    arrays = values(80, seed=2)
    odd = {name: np.repeat(array, 2, axis=0)[::2] for name, array in arrays.items()}
    turned = {
        name: np.asfortranarray(array) if array.ndim > 1 else array for name, array in odd.items()
    }
    assert not turned["q"].flags.c_contiguous
    assert np.array_equal(packed(odd, 80), gathered(arrays))
    assert np.array_equal(packed(turned, 80), gathered(arrays))


@pytest.mark.parametrize("count", [1, 50])
def test_one_value_for_all(count: int) -> None:
    arrays = values(count, seed=3)
    shared = {n: arrays[n][0] if n in ("minv", "q", "energy") else arrays[n] for n in arrays}
    words = packed(shared, count)
    for name in ("minv", "q", "energy"):
        arrays[name] = np.broadcast_to(shared[name], arrays[name].shape)
    assert np.array_equal(words, gathered(arrays))


@pytest.mark.parametrize("count", [1, 31, 33, 2 * BLOCK + 5])
def test_unpacking_is_the_manifests_scatter(count: int) -> None:
    print(f"seed {count}")
    words = np.random.default_rng(count).normal(size=(count, WORDS)).astype(np.float32)
    for column in record_columns(ARRAYS):
        whole = column.blank(count)
        if column.target is None or len(column.target):
            whole[:, column.target if column.target is not None else slice(None)] = np.nan
        column.unpack(words, whole)
        part = words[:, column.start : column.stop].reshape(count, *column.array.record_shape)
        expected = column.array.scatter(part).reshape(count, -1)
        assert np.array_equal(whole, expected), column.array.name


def test_bit_patterns_survive() -> None:
    patterns = np.array([0x7FC00001, 0x80000000, 1, 0x7F800000, 0xFFFFFFFF], np.uint32)
    words = np.resize(patterns, (40, WORDS)).view(np.float32)
    for column in record_columns(ARRAYS):
        whole = column.blank(40)
        column.unpack(words, whole)
        if column.array.sent is None:
            packed = np.ascontiguousarray(words[:, column.start : column.stop])
            assert np.array_equal(whole.view(np.uint32), packed.view(np.uint32))


def test_large_results_use_memory_again_only_when_nobody_looks() -> None:
    lengths: list[int] = []

    def allocate(length: int) -> np.ndarray:
        lengths.append(length)
        return aligned(length)

    pool = Pool(allocate=allocate)
    column = record_columns(ARRAYS)[0]
    count = LARGE // 28 + 1
    first = column.blank(count, pool)
    first[:] = 7
    view = first.reshape(count, 7)[5:, 2]
    second = column.blank(count, pool)
    second[:] = 8
    assert len(lengths) == 2
    del first
    third = column.blank(count, pool)
    assert len(lengths) == 3 and (view == 7).all(), "memory was given away under a view"
    del view, third
    fourth, fifth = column.blank(count, pool), column.blank(count, pool)
    assert len(lengths) == 3 and fourth.shape == fifth.shape == (count, 7)
    assert (second == 8).all()


def test_a_pool_keeps_no_more_than_it_may() -> None:
    lengths: list[int] = []

    def allocate(length: int) -> np.ndarray:
        lengths.append(length)
        return aligned(length)

    pool = Pool(allocate=allocate, capacity=8192)
    blocks = [pool.take(4096) for _ in range(5)]
    for block in blocks:
        pool.give(block)
    again = [pool.take(100) for _ in range(4)]
    assert lengths == [4096] * 7
    assert all(len(block.bytes) == 100 and len(block.memory) == 4096 for block in again)
    starts = {block.memory.__array_interface__["data"][0] for block in again}
    assert len(starts) == 4 and all(start % 4096 == 0 for start in starts)
