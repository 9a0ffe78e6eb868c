// A pool of threads, one per process, that help callers with their batches.
//
// It serves one call at a time; a caller that finds it busy computes alone. A job is open while its
// caller works on it: helpers that wake up later find it closed, and the caller waits only for
// those that took part. They synchronise on one word: epoch, places left, helpers at work.
// Threads sleep when there is nothing to do, hold nothing then, and end with the process; so a
// library that contains the pool must not be unloaded (link it with -z nodelete).
#pragma once

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace pinion {
namespace {

inline int64_t nanoseconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// A moment in a loop that waits for another thread.
inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// The CPUs that a thread may use.
struct Processors {
  unsigned count;
#if defined(__linux__)
  bool known;
  cpu_set_t set;
#endif
};

inline void processors_of_caller(Processors &cpus) {
  long count = 0;
#if defined(__linux__)
  memset(&cpus, 0, sizeof cpus);
  cpus.known = sched_getaffinity(0, sizeof cpus.set, &cpus.set) == 0;
  if (cpus.known) count = CPU_COUNT(&cpus.set);
#endif
  if (count == 0) count = sysconf(_SC_NPROCESSORS_ONLN);
  cpus.count = count > 1 ? (unsigned)count : 1;
}

constexpr unsigned MOST_HELPERS = 255;
constexpr size_t HELPER_STACK = size_t(4) << 20;
// How long a waiting thread spins before it sleeps.
constexpr int64_t SPIN_NS = 30000;

struct Job {
  void (*work)(void *);
  void *context;
  unsigned helpers;
  bool spin;
  Processors cpus;
};

// What wakes one helper.
struct alignas(128) Bed {
  std::atomic<uint32_t> epoch, asleep;
  uint32_t seen; // the epoch when its thread was started
  pthread_mutex_t mutex;
  pthread_cond_t wake;
};

struct Pool {
  alignas(128) std::atomic<uint64_t> meeting; // epoch << 32 | places << 16 | helpers at work
  alignas(128) std::atomic<uint32_t> busy;
  // These belong to the thread that set `busy`; the job may also be read by helpers at work.
  bool prepared;
  unsigned threads;
  Job job;
  std::atomic<uint32_t> caller_sleeps;
  pthread_mutex_t mutex;
  pthread_cond_t done;
  Bed beds[MOST_HELPERS];
};

constexpr uint64_t PLACE = 0x10000, PLACES = 0xffff0000, HELPERS = 0xffff;

// All zero at the start. Statics of this kind need no constructor and no destructor.
Pool pool;

// Helpers wake each other along a tree: of the caller 0 and 1, of helper i 2 i + 2 and 2 i + 3.
inline void rouse(unsigned i, uint32_t epoch) {
  if (i >= pool.job.helpers) return;
  Bed &bed = pool.beds[i];
  bed.epoch.store(epoch, std::memory_order_seq_cst);
  if (!bed.asleep.load(std::memory_order_seq_cst)) return;
  pthread_mutex_lock(&bed.mutex);
  pthread_cond_signal(&bed.wake);
  pthread_mutex_unlock(&bed.mutex);
}

// Waits until a helper's epoch is another than the one that it has seen.
inline uint32_t next_epoch(Bed &bed, uint32_t seen, bool spin) {
  const int64_t start = spin ? nanoseconds() : 0;
  while (spin) {
    for (int i = 0; i < 16; ++i) {
      const uint32_t epoch = bed.epoch.load(std::memory_order_acquire);
      if (epoch != seen) return epoch;
      relax();
    }
    spin = nanoseconds() - start < SPIN_NS;
  }
  uint32_t epoch;
  pthread_mutex_lock(&bed.mutex);
  bed.asleep.store(1, std::memory_order_seq_cst);
  while ((epoch = bed.epoch.load(std::memory_order_seq_cst)) == seen)
    pthread_cond_wait(&bed.wake, &bed.mutex);
  bed.asleep.store(0, std::memory_order_relaxed);
  pthread_mutex_unlock(&bed.mutex);
  return epoch;
}

// Takes a place in the job of this epoch, if it is still open.
inline bool join_job(uint32_t epoch) {
  uint64_t word = pool.meeting.load(std::memory_order_acquire);
  while ((uint32_t)(word >> 32) == epoch && (word & PLACES))
    if (pool.meeting.compare_exchange_weak(word, word - PLACE + 1, std::memory_order_acq_rel,
                                           std::memory_order_acquire))
      return true;
  return false;
}

inline void leave_job() {
  const uint64_t before = pool.meeting.fetch_sub(1, std::memory_order_seq_cst);
  if ((before & HELPERS) != 1 || !pool.caller_sleeps.load(std::memory_order_seq_cst)) return;
  pthread_mutex_lock(&pool.mutex);
  pthread_cond_signal(&pool.done);
  pthread_mutex_unlock(&pool.mutex);
}

inline void *helper(void *argument) {
  Bed &bed = *(Bed *)argument;
  const unsigned i = (unsigned)(&bed - pool.beds);
  uint32_t epoch = bed.seen;
  bool spin = false;
  Processors mine;
  memset(&mine, 0, sizeof mine);
  for (;;) {
    epoch = next_epoch(bed, epoch, spin);
    if (!join_job(epoch)) continue;
    rouse(2 * i + 2, epoch);
    rouse(2 * i + 3, epoch);
#if defined(__linux__)
    const Processors &cpus = pool.job.cpus;
    if (cpus.known && memcmp(&mine.set, &cpus.set, sizeof mine.set) != 0) {
      mine = cpus;
      sched_setaffinity(0, sizeof mine.set, &mine.set);
    }
#endif
    spin = pool.job.spin;
    pool.job.work(pool.job.context);
    leave_job();
  }
}

// The child of a fork has no threads but its own.
inline void forget_helpers() {
  pool.threads = 0;
  pool.meeting.store(0);
  pool.caller_sleeps.store(0);
  pthread_mutex_init(&pool.mutex, nullptr);
  pthread_cond_init(&pool.done, nullptr);
  pool.busy.store(0);
}

inline bool start_helper() {
  if (!pool.prepared) {
    if (pthread_atfork(nullptr, nullptr, forget_helpers) != 0) return false;
    pool.prepared = true;
    forget_helpers();
    pool.busy.store(1);
  }
  Bed &bed = pool.beds[pool.threads];
  bed.seen = (uint32_t)(pool.meeting.load(std::memory_order_relaxed) >> 32);
  bed.epoch.store(bed.seen, std::memory_order_relaxed);
  bed.asleep.store(0, std::memory_order_relaxed);
  pthread_mutex_init(&bed.mutex, nullptr);
  pthread_cond_init(&bed.wake, nullptr);
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, HELPER_STACK);
  // Signals are for the threads of the program.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool started = pthread_create(&thread, &attributes, helper, &bed) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  pool.threads += started;
  return started;
}

inline void wait_for_helpers() {
  const int64_t start = nanoseconds();
  while (pool.meeting.load(std::memory_order_acquire) & HELPERS) {
    for (int i = 0; i < 16; ++i) relax();
    if (pool.job.spin && nanoseconds() - start < SPIN_NS) continue;
    pool.caller_sleeps.store(1, std::memory_order_seq_cst);
    pthread_mutex_lock(&pool.mutex);
    while (pool.meeting.load(std::memory_order_seq_cst) & HELPERS)
      pthread_cond_wait(&pool.done, &pool.mutex);
    pthread_mutex_unlock(&pool.mutex);
    pool.caller_sleeps.store(0, std::memory_order_relaxed);
  }
}

// Calls work(context) here and in up to `helpers` other threads, on the caller's CPUs;
// returns when all are done. `work` returns once nothing is left to take.
__attribute__((noinline)) void share(unsigned helpers, const Processors &cpus,
                                     void (*work)(void *), void *context) {
  if (pool.busy.load(std::memory_order_relaxed) ||
      pool.busy.exchange(1, std::memory_order_acquire))
    return work(context);
  if (helpers > MOST_HELPERS) helpers = MOST_HELPERS;
  while (pool.threads < helpers && start_helper()) {
  }
  Job &job = pool.job;
  job.work = work;
  job.context = context;
  job.helpers = helpers < pool.threads ? helpers : pool.threads;
  job.cpus = cpus;
  // With more threads than CPUs, a thread that spins only hinders those that work.
  job.spin = job.helpers < cpus.count;
  const uint32_t epoch = (uint32_t)(pool.meeting.load(std::memory_order_relaxed) >> 32) + 1;
  pool.meeting.store((uint64_t)epoch << 32 | (uint64_t)job.helpers << 16,
                     std::memory_order_release);
  rouse(0, epoch);
  rouse(1, epoch);
  work(context);
  pool.meeting.fetch_and(~PLACES, std::memory_order_seq_cst);
  wait_for_helpers();
  pool.busy.store(0, std::memory_order_release);
}

} // namespace
} // namespace pinion
