// Memory of results that are no longer referenced, kept for later results.
//
// New memory from the system costs a page fault for every 4 KiB written for the first time, which
// for large batches takes longer than computing them. What is kept has been written before, and the
// last piece that came back is in the caches.
#pragma once

#include <atomic>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

namespace pinion {
namespace {

// Pieces by size, the newest last. It may be used from any thread, and in a child after a fork: a
// thread that finds it in use asks the system instead of waiting.
class Reuse {
public:
  static constexpr size_t MOST_BYTES = size_t(128) << 20;
  static constexpr int MOST_PIECES = 64;

  // The size of the piece for so many bytes: at most an eighth more, so that batches of sizes that
  // change a little share pieces.
  static size_t rounded(size_t bytes) {
    size_t step = 64;
    while (step * 16 <= bytes) step *= 2;
    return (bytes + step - 1) / step * step;
  }

  // A piece of a size that `rounded` gave, at a multiple of 64; null: there is no memory.
  void *take(size_t size) {
    void *data = nullptr;
    if (!busy.test_and_set(std::memory_order_acquire)) {
      int k = count;
      while (k > 0 && piece[k - 1].size != size) --k;
      if (k > 0) {
        data = piece[k - 1].data;
        drop(k - 1);
      }
      busy.clear(std::memory_order_release);
    }
    if (data || posix_memalign(&data, 64, size) == 0) return data;
    give_up(); // others may need the memory that is kept unused
    return posix_memalign(&data, 64, size) == 0 ? data : nullptr;
  }

  // A piece is no longer used: it is kept, in the place of the oldest ones if there are too many.
  void put(void *data, size_t size) {
    if (size > MOST_BYTES || busy.test_and_set(std::memory_order_acquire)) return free(data);
    while (count == MOST_PIECES || bytes + size > MOST_BYTES) {
      free(piece[0].data);
      drop(0);
    }
    piece[count++] = {data, size};
    bytes += size;
    busy.clear(std::memory_order_release);
  }

  // Give all that is kept back to the system.
  void give_up() {
    if (busy.test_and_set(std::memory_order_acquire)) return;
    while (count > 0) free(piece[--count].data);
    bytes = 0;
    busy.clear(std::memory_order_release);
  }

  // Size in bytes of what is kept; 0 while another thread uses it.
  size_t kept() {
    if (busy.test_and_set(std::memory_order_acquire)) return 0;
    const size_t found = bytes;
    busy.clear(std::memory_order_release);
    return found;
  }

private:
  struct Piece {
    void *data;
    size_t size;
  };
  Piece piece[MOST_PIECES] = {};
  int count = 0;
  size_t bytes = 0;
  std::atomic_flag busy = ATOMIC_FLAG_INIT;

  void drop(int k) {
    bytes -= piece[k].size;
    --count;
    memmove(piece + k, piece + k + 1, (count - k) * sizeof(Piece));
  }
};

} // namespace
} // namespace pinion
