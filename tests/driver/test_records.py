"""Records: round trip of words in the manifest's order."""

from __future__ import annotations

import numpy as np

from pinion.driver import pack, request_dtype, result_dtype, unpack
from pinion.link import Array
from tests.driver.cards import manifest, states


def test_the_layouts_are_those_of_the_manifest() -> None:
    m = manifest()
    assert request_dtype(m).itemsize == 4 * m.words_in == 40
    assert result_dtype(m).itemsize == 4 * m.words_out == 32
    assert request_dtype(m).names == ("q", "qd", "weight")
    fields = request_dtype(m).fields
    assert fields is not None and [fields[name][1] for name in fields] == [0, 8, 16]


def test_words_stand_row_by_row_in_the_order_of_the_arrays() -> None:
    arrays = {
        "q": np.array([[0, 1], [10, 11]], np.float32),
        "qd": np.array([[2, 3], [12, 13]], np.float32),
        "weight": np.arange(4, 10, dtype=np.float32).reshape(1, 2, 3) + [[[0]], [[10]]],
    }
    words = pack(request_dtype(manifest()), arrays, 2)
    assert words.dtype == np.uint32 and words.flags.c_contiguous
    assert words.view(np.float32).tolist() == [list(range(10)), list(range(10, 20))]


def test_unpack_undoes_pack_without_copies() -> None:
    m = manifest()
    arrays = states(5, seed=3)
    words = pack(request_dtype(m), arrays, 5)
    back = unpack(request_dtype(m), words)
    for name, array in arrays.items():
        assert np.array_equal(back[name], array), name
        assert np.shares_memory(back[name], words)


def test_bit_patterns_survive() -> None:
    words = np.array([[0x7FC00001, 0x80000000, 1, 0x7F800000, 0, 5, 6, 0xFFFFFFFF]], np.uint32)
    layout = result_dtype(manifest())
    assert np.array_equal(pack(layout, unpack(layout, words), 1), words)


def test_empty_batches_and_single_words() -> None:
    m = manifest(outputs=(Array(name="energy", shape=(), unit="J"),))
    assert unpack(result_dtype(m), np.zeros((0, 1), np.uint32))["energy"].shape == (0,)
    energy = unpack(result_dtype(m), np.array([[0x3F800000]], np.uint32))["energy"]
    assert energy.shape == (1,) and energy[0] == 1.0
    assert pack(request_dtype(m), states(0, seed=1), 0).shape == (0, 10)
