// Memory of the calling thread for intermediate values.
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "vec.hpp"

namespace pinion {
namespace {

pthread_once_t scratch_once = PTHREAD_ONCE_INIT;
pthread_key_t scratch_key;
bool scratch_usable;

inline void make_scratch_key() { scratch_usable = pthread_key_create(&scratch_key, free) == 0; }

// Memory of the calling thread, kept until it ends, at a multiple of 64; null: there is none.
PINION_COLD void *scratch_of_thread(size_t bytes) {
  constexpr size_t LINE = 64;
  pthread_once(&scratch_once, make_scratch_key);
  if (!scratch_usable) return nullptr;
  size_t *kept = (size_t *)pthread_getspecific(scratch_key);
  if (!kept || *kept < bytes) {
    free(kept);
    pthread_setspecific(scratch_key, nullptr);
    void *made = nullptr;
    if (posix_memalign(&made, LINE, LINE + bytes) != 0) return nullptr;
    kept = (size_t *)made;
    *kept = bytes;
    if (pthread_setspecific(scratch_key, kept) != 0) {
      free(kept);
      return nullptr;
    }
  }
  return (char *)kept + LINE;
}

} // namespace
} // namespace pinion
