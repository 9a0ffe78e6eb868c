// CUDA kernels on a processor, for tests: the threads of a block are fibers that switch at barriers.
//
// tests/support/cuda_host.py puts this in front of a kernel's text, which is written for NVRTC, and
// compiles both as C++17. Blocks run one after the other, in an order drawn from a seed. Within a
// block all threads run from one barrier to the next, one after the other, in an order that is
// drawn anew at every barrier: what a barrier would have kept apart meets in some of these orders.
//
// What is undefined on a GPU is made visible:
//   - shared memory is filled with NaN (bytes 0xff) before every block;
//   - bytes around the dynamic shared memory must stay as they are;
//   - words of the type Watched note who uses them between two barriers;
//   - threads that wait at different barriers, or for threads that never come, are an error. Threads
//     that have ended are not waited for, as since compute capability 7.0.
// A cooperative launch has the threads of all blocks under way together: a block's run until all of
// them wait for the grid or have ended, then the next one's, in an order that is drawn anew at every
// barrier of the grid. Each has its own shared memory.
// One launch at a time in a process: its state is static.
#pragma once

// Where it is on, glibc takes a jump to another stack for an error.
#undef _FORTIFY_SOURCE

#include <csetjmp>
#include <cmath>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <ucontext.h>
#include <utility>
#include <vector>

// vec.hpp takes the scalar code that a GPU gets.
#define PINION_CUDA_HOST 1

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline // not forced, which takes compilers three times as long
#define __launch_bounds__(...)
// Static arrays stand in a section of their own, whose ends the linker knows. (Dynamic ones are
// rewritten before the compiler sees them.)
#define __shared__ static __attribute__((section("cuda_shared")))

struct uint3 {
  unsigned x, y, z;
};
typedef uint3 dim3;

extern "C" __attribute__((weak, visibility("hidden"))) unsigned char __start_cuda_shared[];
extern "C" __attribute__((weak, visibility("hidden"))) unsigned char __stop_cuda_shared[];

namespace cuda_host {

constexpr size_t LARGEST = 227 * 1024; // bytes of shared memory that a block has on Hopper
constexpr size_t GUARD = 4096;
constexpr size_t STACK = 256 * 1024;
constexpr unsigned WARP = 32;
constexpr unsigned char UNWRITTEN = 0xff; // four or eight of them are a NaN

enum class State { ready, at_block, at_warp, at_grid, done };

struct Fiber {
  ucontext_t context; // to begin with; from then on `place`, which takes no call of the system
  jmp_buf place;
  bool begun;
  uint3 thread;
  unsigned number; // of the thread in its block
  State state;
  const char *file; // of the barrier where it waits
  int line;
  unsigned mask;   // of the warp's barrier where it waits
  uint64_t offers; // what it gives to other lanes,
  uint64_t given;  // and what they find once all have come
};

alignas(256) static unsigned char arena[GUARD + LARGEST + GUARD];
static std::vector<Fiber> fibers; // of the block that runs
static Fiber *current;
static jmp_buf scheduler;
static uint3 block, blocks, threads;
static bool cooperative;
static void (*body)(void **);
static void **arguments;
static uint64_t randomness;
static char *message;
static size_t message_bytes;

inline void *shared() { return arena + GUARD; }

// SplitMix64 (Steele, Lea and Flood 2014).
static uint64_t draw() {
  uint64_t x = randomness += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

template <class X> static void shuffle(std::vector<X> &items) {
  for (size_t k = items.size(); k > 1; --k) std::swap(items[k - 1], items[draw() % k]);
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
  if (message[0]) return; // the first one is the cause
  va_list rest;
  va_start(rest, format);
  vsnprintf(message, message_bytes, format, rest);
  va_end(rest);
}

static void pause() {
  if (!_setjmp(current->place)) _longjmp(scheduler, 1);
}

// Runs a thread until it waits. Not inline: no variable of the caller changes between the jumps.
__attribute__((noinline)) static void resume(Fiber *fiber) {
  current = fiber;
  if (_setjmp(scheduler)) return;
  if (fiber->begun) _longjmp(fiber->place, 1);
  fiber->begun = true;
  setcontext(&fiber->context);
}

// How often threads have gone on from a barrier together: two accesses are ordered when it is another.
static uint64_t interval;

// Who used a word of the dynamic shared memory since the last barrier.
constexpr int NOBODY = -1, SEVERAL = -2;
struct Uses {
  uint64_t interval;
  int writer, reader;
};
static std::vector<Uses> uses;

// Stacks of a block's threads. They are not cleared: what no thread uses is never in memory.
struct Stacks {
  std::unique_ptr<unsigned char[]> bytes;
  size_t count = 0;
  unsigned char *of(size_t number, size_t all) {
    if (count < all) {
      bytes.reset(new unsigned char[all * STACK]);
      count = all;
    }
    return bytes.get() + number * STACK;
  }
};
static Stacks stacks;

static void use(const void *word, bool writes) {
  const size_t at = (size_t)((const unsigned char *)word - arena) / 2; // no word is shorter
  if (uses.size() <= at) uses.resize(sizeof arena / 2);
  Uses &known = uses[at];
  const int own = (int)current->number;
  if (known.interval != interval) known = {interval, NOBODY, NOBODY};
  const auto other = [own](int who) { return who != NOBODY && who != own; };
  if (other(known.writer) || (writes && other(known.reader)))
    say("two threads, one of them %d, use byte %td of the shared memory of block (%u, %u, %u) with "
        "no barrier between, and one of the two writes",
        own, (const unsigned char *)word - (arena + GUARD), block.x, block.y, block.z);
  if (writes)
    known.writer = own;
  else
    known.reader = other(known.reader) ? SEVERAL : own;
}

// A word that notes this, in the place of a T of dynamic shared memory. Two threads that meet at it
// are an error in whatever order they come; barriers of warps do not count.
template <class T> struct Watched {
  T value;
  operator T() const {
    use(this, false);
    return value;
  }
  Watched &operator=(T x) {
    use(this, true);
    value = x;
    return *this;
  }
};

static void wait(State state, unsigned mask, const char *file, int line) {
  Fiber &own = *current;
  own.state = state;
  own.mask = mask;
  own.file = file;
  own.line = line;
  pause();
}

// Ends the launch with a message; the thread does not go on.
[[noreturn]] static void trap(const char *file, int line, const char *came = "came to __trap()") {
  say("thread %u of block (%u, %u, %u) %s in %s:%d", current->number, block.x, block.y, block.z,
      came, file, line);
  for (;;) pause();
}

static void entry() {
  body(arguments);
  current->state = State::done;
  for (;;) pause();
}

static bool same_barrier(const Fiber &a, const Fiber &b) {
  return a.line == b.line && !strcmp(a.file, b.file);
}

// Lets threads go that have all come to their barrier; false: there are none.
static bool release() {
  Fiber *first = nullptr;
  size_t waiting = 0, alive = 0;
  for (Fiber &fiber : fibers) {
    if (fiber.state == State::done) continue;
    ++alive;
    if (fiber.state != State::at_block) continue;
    ++waiting;
    if (!first) first = &fiber;
    if (!same_barrier(*first, fiber)) {
      say("threads %u and %u of block (%u, %u, %u) wait at different barriers, %s:%d and %s:%d",
          first->number, fiber.number, block.x, block.y, block.z, first->file, first->line,
          fiber.file, fiber.line);
      return false;
    }
  }
  bool released = false;
  if (waiting && waiting == alive) {
    for (Fiber &fiber : fibers)
      if (fiber.state == State::at_block) fiber.state = State::ready;
    released = true;
    ++interval;
  }
  for (Fiber &fiber : fibers) {
    if (fiber.state != State::at_warp) continue;
    const unsigned lead = fiber.number / WARP * WARP;
    bool all = (fiber.mask >> (fiber.number - lead) & 1) != 0;
    for (unsigned lane = 0; lane < WARP && lead + lane < fibers.size(); ++lane) {
      const Fiber &other = fibers[lead + lane];
      if (!(fiber.mask >> lane & 1) || other.state == State::done) continue;
      all = all && other.state == State::at_warp && other.mask == fiber.mask &&
            same_barrier(fiber, other);
    }
    if (!all) continue;
    const unsigned mask = fiber.mask;
    for (unsigned lane = 0; lane < WARP && lead + lane < fibers.size(); ++lane)
      if ((mask >> lane & 1) && fibers[lead + lane].state == State::at_warp) {
        fibers[lead + lane].state = State::ready;
        fibers[lead + lane].given = fibers[lead + lane].offers;
      }
    released = true;
  }
  return released;
}

static bool untouched(const unsigned char *from, const unsigned char *to) {
  for (; from < to; ++from)
    if (*from != UNWRITTEN) return false;
  return true;
}

// Makes the threads of a block and clears its shared memory.
static void begin_block(size_t bytes, size_t first_stack, size_t all_stacks) {
  memset(arena, UNWRITTEN, GUARD + bytes + GUARD);
  if (__start_cuda_shared)
    memset(__start_cuda_shared, UNWRITTEN, (size_t)(__stop_cuda_shared - __start_cuda_shared));
  ++interval;
  const size_t count = (size_t)threads.x * threads.y * threads.z;
  fibers.resize(count);
  for (unsigned k = 0; k < count; ++k) {
    Fiber &fiber = fibers[k];
    fiber.number = k;
    fiber.thread = {k % threads.x, k / threads.x % threads.y, k / threads.x / threads.y};
    fiber.state = State::ready;
    fiber.begun = false;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stacks.of(first_stack + k, all_stacks);
    fiber.context.uc_stack.ss_size = STACK;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, entry, 0);
  }
}

// Runs the block's threads until all have ended or, the last ones, wait for the grid. True: some do.
static bool run_block(size_t bytes) {
  std::vector<Fiber *> turn;
  bool for_grid;
  for (;;) {
    turn.clear();
    for (Fiber &fiber : fibers)
      if (fiber.state == State::ready) turn.push_back(&fiber);
    shuffle(turn);
    for (Fiber *fiber : turn) {
      resume(fiber);
      if (message[0]) return false;
    }
    size_t alive = 0, waiting = 0;
    for (const Fiber &fiber : fibers) {
      alive += fiber.state != State::done;
      waiting += fiber.state == State::at_grid;
    }
    for_grid = waiting == fibers.size();
    if (!alive || for_grid) break;
    if (!release()) {
      for (const Fiber &fiber : fibers) {
        if (fiber.state == State::done) continue;
        say("thread %u of block (%u, %u, %u) waits at %s:%d for threads that never come",
            fiber.number, block.x, block.y, block.z, fiber.file, fiber.line);
      }
      return false;
    }
  }
  if (!untouched(arena, arena + GUARD) ||
      !untouched(arena + GUARD + bytes, arena + GUARD + bytes + GUARD))
    say("block (%u, %u, %u) wrote outside its %zu bytes of dynamic shared memory", block.x, block.y,
        block.z, bytes);
  return for_grid;
}

// A block of a cooperative launch while others run.
struct Resting {
  uint3 at;
  std::vector<Fiber> fibers;
  std::vector<unsigned char> dynamic, fixed;
  std::vector<Uses> uses;
  bool waits;
};

static void exchange_block(Resting &rest) {
  fibers.swap(rest.fibers);
  uses.swap(rest.uses);
  block = rest.at;
  const auto swap = [](std::vector<unsigned char> &kept, unsigned char *own) {
    for (unsigned char &byte : kept) std::swap(byte, *own++);
  };
  swap(rest.dynamic, arena);
  swap(rest.fixed, __start_cuda_shared);
}

static void run_together(const std::vector<uint3> &order, size_t bytes) {
  const size_t count = (size_t)threads.x * threads.y * threads.z;
  const size_t fixed = __start_cuda_shared ? (size_t)(__stop_cuda_shared - __start_cuda_shared) : 0;
  std::vector<Resting> resting(order.size());
  for (size_t k = 0; k < order.size(); ++k) {
    resting[k].at = order[k];
    resting[k].dynamic.resize(GUARD + bytes + GUARD);
    resting[k].fixed.resize(fixed);
    exchange_block(resting[k]);
    begin_block(bytes, k * count, order.size() * count);
    exchange_block(resting[k]);
  }
  std::vector<Resting *> turn;
  for (Resting &rest : resting) turn.push_back(&rest);
  for (;;) {
    size_t waiting = 0;
    shuffle(turn);
    for (Resting *rest : turn) {
      exchange_block(*rest);
      rest->waits = run_block(bytes);
      exchange_block(*rest);
      if (message[0]) return;
      waiting += rest->waits;
    }
    if (!waiting) return;
    const Fiber &first = turn[0]->fibers[0];
    for (Resting *rest : turn)
      for (Fiber &fiber : rest->fibers) {
        if (!rest->waits || !same_barrier(first, fiber)) {
          say("block (%u, %u, %u) does not come to the barrier of the grid where others wait",
              rest->at.x, rest->at.y, rest->at.z);
          return;
        }
        fiber.state = State::ready;
      }
    ++interval;
  }
}

// What runs a kernel; `text` receives what went wrong, or nothing.
static void launch(void (*kernel)(void **), const unsigned *grid, const unsigned *shape,
                   size_t bytes, bool together, void **args, uint64_t seed, char *text,
                   size_t text_bytes) {
  message = text;
  message_bytes = text_bytes;
  message[0] = 0;
  body = kernel;
  arguments = args;
  randomness = seed;
  blocks = {grid[0], grid[1], grid[2]};
  threads = {shape[0], shape[1], shape[2]};
  if (bytes > LARGEST || (uint64_t)threads.x * threads.y * threads.z > 1024) {
    say("no GPU has a block of %zu bytes of shared memory and (%u, %u, %u) threads", bytes,
        threads.x, threads.y, threads.z);
    return;
  }
  cooperative = together;
  std::vector<uint3> order;
  for (unsigned z = 0; z < blocks.z; ++z)
    for (unsigned y = 0; y < blocks.y; ++y)
      for (unsigned x = 0; x < blocks.x; ++x) order.push_back({x, y, z});
  shuffle(order);
  if (together) {
    run_together(order, bytes);
    return;
  }
  const size_t count = (size_t)threads.x * threads.y * threads.z;
  for (const uint3 &at : order) {
    block = at;
    begin_block(bytes, 0, count);
    run_block(bytes);
    if (message[0]) return;
  }
}

template <class... A, size_t... K>
static void call(void (*kernel)(A...), void **args, std::index_sequence<K...>) {
  kernel(*(A *)args[K]...);
}
template <class... A> static void call(void (*kernel)(A...), void **args) {
  call(kernel, args, std::index_sequence_for<A...>{});
}

// The value that the lane `source` of the warp offers; NaN's bits where it is none of the mask.
template <class T>
static T exchange(unsigned mask, T value, unsigned source, const char *file, int line) {
  static_assert(sizeof(T) <= sizeof(uint64_t), "a shuffle moves 4 or 8 bytes");
  Fiber &own = *current;
  own.offers = 0;
  memcpy(&own.offers, &value, sizeof value);
  wait(State::at_warp, mask, file, line);
  const unsigned number = own.number / WARP * WARP + source;
  uint64_t found = ~(uint64_t)0;
  if (number < fibers.size() && (mask >> source & 1)) found = fibers[number].given;
  memcpy(&value, &found, sizeof value);
  return value;
}

template <class T>
static T shuffled(unsigned mask, T value, int source, int width, const char *file, int line) {
  const unsigned lane = current->number % WARP, part = (unsigned)width;
  return exchange(mask, value, lane / part * part + (unsigned)source % part, file, line);
}

template <class T>
static T shuffled_down(unsigned mask, T value, unsigned delta, int width, const char *file,
                       int line) {
  const unsigned lane = current->number % WARP, part = (unsigned)width;
  const bool stays = lane % part + delta >= part;
  return exchange(mask, value, stays ? lane : lane + delta, file, line);
}

template <class T>
static T shuffled_up(unsigned mask, T value, unsigned delta, int width, const char *file,
                     int line) {
  const unsigned lane = current->number % WARP, part = (unsigned)width;
  return exchange(mask, value, lane % part < delta ? lane : lane - delta, file, line);
}

// What cooperative groups' grid.sync() is; only a cooperative launch may have it.
static void wait_for_grid(const char *file, int line) {
  if (!cooperative) trap(file, line, "waits for the grid, and the launch is not cooperative,");
  wait(State::at_grid, 0, file, line);
}

// Optional last arguments of CUDA's functions.
inline unsigned all_lanes(unsigned mask = 0xffffffffu) { return mask; }
inline int whole(int width = 32) { return width; }

} // namespace cuda_host

#define threadIdx (cuda_host::current->thread)
#define blockIdx (cuda_host::block)
#define blockDim (cuda_host::threads)
#define gridDim (cuda_host::blocks)
#define warpSize 32

#define __syncthreads() cuda_host::wait(cuda_host::State::at_block, 0, __FILE__, __LINE__)
#define __syncwarp(...)                                                                            \
  cuda_host::wait(cuda_host::State::at_warp, cuda_host::all_lanes(__VA_ARGS__), __FILE__, __LINE__)
#define __shfl_sync(mask, value, source, ...)                                                      \
  cuda_host::shuffled(mask, value, source, cuda_host::whole(__VA_ARGS__), __FILE__, __LINE__)
#define __shfl_down_sync(mask, value, delta, ...)                                                  \
  cuda_host::shuffled_down(mask, value, delta, cuda_host::whole(__VA_ARGS__), __FILE__, __LINE__)
#define __shfl_up_sync(mask, value, delta, ...)                                                    \
  cuda_host::shuffled_up(mask, value, delta, cuda_host::whole(__VA_ARGS__), __FILE__, __LINE__)
// In the place of a barrier over all blocks (chains/kernels/sources/scan.cuh).
#define PINION_GRID_BARRIER(counter) ((void)(counter), cuda_host::wait_for_grid(__FILE__, __LINE__))
#define __trap() cuda_host::trap(__FILE__, __LINE__)

template <class T> static inline T __ldg(const T *p) { return *p; }
template <class T> static inline void __stcs(T *p, T x) { *p = x; }
static inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
static inline float __fsqrt_rn(float a) { return __builtin_sqrtf(a); }
static inline double __dsqrt_rn(double a) { return __builtin_sqrt(a); }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }

// After a kernel's definition: what Python calls.
#define CUDA_HOST_ENTRY(kernel)                                                                    \
  extern "C" __attribute__((visibility("default"))) void kernel##_launch(                          \
      const unsigned *grid, const unsigned *shape, size_t bytes, int together, void **args,        \
      uint64_t seed, char *text, size_t text_bytes) {                                              \
    cuda_host::launch([](void **given) { cuda_host::call(&kernel, given); }, grid, shape, bytes,   \
                      together != 0, args, seed, text, text_bytes);                                \
  }
