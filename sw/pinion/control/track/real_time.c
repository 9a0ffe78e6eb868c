/* Tracks a motion with a simulated robot, at the controller's period.

   cc -O2 real_time.c -Iinclude -Llib -lNAME -Wl,-rpath,'$ORIGIN/lib' -o real_time
   ./real_time motion.bin [PERIODS [free]]

   motion.bin: rows of q, then of qd, tau, the tip and contacts, in NAME_real. PERIODS: how many; the
   motion begins anew when it ends. free: periods follow one another without waiting. */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "NAME.h"

enum { NQ = NAME_NQ, NV = NAME_NV, NU = NAME_NU, TIP = NAME_TIP, CONTACTS = NAME_CONTACTS };
enum { INNER = 4, PRIORITY = 80 };

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* Times in nanoseconds. */
struct times {
  int64_t *ns, count;
};

static void add(struct times *to, int64_t ns) { to->ns[to->count++] = ns; }

static int compare(const void *a, const void *b) {
  const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
  return (left > right) - (left < right);
}

/* Median, tail, and a histogram whose bins double from 1 us on. */
static void print(const char *title, const struct times *of) {
  const int64_t n = of->count, *const ns = of->ns;
  qsort(of->ns, n, sizeof *ns, compare);
  printf("%s [us]: median %.1f, 99 %% %.1f, 99.9 %% %.1f, largest %.1f\n", title, ns[n / 2] / 1e3,
         ns[n * 99 / 100] / 1e3, ns[n * 999 / 1000] / 1e3, ns[n - 1] / 1e3);
  for (int64_t bin = 1, begin = 0, end; begin < n; bin *= 2, begin = end) {
    for (end = begin; end < n && ns[end] < 1000 * bin; ++end) {
    }
    if (end > begin)
      printf("  below %8lld %9lld  %8.4f %%\n", (long long)bin, (long long)(end - begin),
             100.0 * (end - begin) / n);
  }
}

static void fail(const char *text) {
  fprintf(stderr, "%s\n", text);
  exit(1);
}

/* Memory that is written once, so that none is missing later. */
static struct times room(int64_t count) {
  int64_t *const ns = malloc(count * sizeof *ns);
  if (!ns) fail("There is no memory for the times.");
  memset(ns, 0, count * sizeof *ns);
  return (struct times){ns, 0};
}

static NAME_motion read_motion(const char *path) {
  const size_t row = (NQ + NV + NU + TIP + CONTACTS) * sizeof(NAME_real);
  FILE *file = fopen(path, "rb");
  if (!file) fail("The motion cannot be read.");
  fseek(file, 0, SEEK_END);
  const long bytes = ftell(file);
  rewind(file);
  NAME_real *numbers = malloc(bytes > 0 ? bytes : 1);
  if (bytes <= 0 || bytes % row || !numbers || fread(numbers, bytes, 1, file) != 1)
    fail("The motion is not whole rows.");
  fclose(file);
  const int64_t rows = bytes / row;
  const NAME_real *const qd = numbers + rows * NQ, *const tau = qd + rows * NV;
  return (NAME_motion){rows, numbers, qd, tau, tau + rows * NU, tau + rows * (NU + TIP)};
}

int main(int count, char **words) {
  if (count < 2) fail("usage: real_time MOTION [PERIODS [free]]");
  const NAME_motion motion = read_motion(words[1]);
  const int64_t last = motion.rows - NAME_ROWS + 1; /* periods of the motion */
  const int64_t periods = count > 2 ? atoll(words[2]) : last;
  if (last < 1 || periods < 1) fail("The motion must be longer than the horizon, PERIODS at least 1.");
  const int waits = count < 4 || strcmp(words[3], "free") != 0;
  const int64_t period = (int64_t)llround(1e9 * NAME_PERIOD);

  NAME_controller *controller = aligned_alloc(
      NAME_ALIGNMENT, (NAME_bytes() / NAME_ALIGNMENT + 1) * NAME_ALIGNMENT);
  if (!controller || NAME_open(controller, &motion) != NAME_DONE)
    fail("The controller cannot be opened: is the motion shorter than its horizon?");

  const struct sched_param priority = {.sched_priority = PRIORITY};
  const char *why = NULL;
  if (mlockall(MCL_CURRENT | MCL_FUTURE)) why = strerror(errno);
  if (sched_setscheduler(0, SCHED_FIFO, &priority)) why = strerror(errno);
  printf("%s, real-time priority and locked memory: %s\n", NAME_isa(), why ? why : "yes");
  fflush(stdout);

  struct times late = room(periods), update = room(periods), law = room(periods * INNER);
  double x[NQ + NV], u[NU], off = 0;
  int64_t lost = 0;
  int64_t due = now();
  if (write(STDERR_FILENO, "begin\n", 6) != 6) return 1;
  for (int64_t k = 0; k < periods; ++k) {
    const int64_t at = k % last;
    if (at == 0) {
      lost += NAME_counted(controller).restarts;
      NAME_open(controller, &motion);
      for (int i = 0; i < NQ; ++i) x[i] = motion.q[i];
      for (int i = 0; i < NV; ++i) x[NQ + i] = motion.qd[i];
    }
    if (waits) {
      due += period;
      const struct timespec until = {due / 1000000000, due % 1000000000};
      while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
      }
      add(&late, now() - due);
    }
    for (int i = 0; i < NQ; ++i) {
      const double error = fabs(x[i] - motion.q[at * NQ + i]);
      if (error > off) off = error;
    }
    int64_t begin = now();
    const int answer = NAME_update(controller, at, x);
    add(&update, now() - begin);
    if (answer != NAME_DONE) fail("The controller has no law for this state.");
    for (int step = 0; step < INNER; ++step) {
      begin = now();
      NAME_efforts(NAME_last_law(controller), step * NAME_PERIOD / INNER, x, u);
      add(&law, now() - begin);
      NAME_simulate(controller, at, NAME_PERIOD / INNER, x, u);
    }
  }
  if (write(STDERR_FILENO, "end\n", 4) != 4) return 1;
  if (waits) print("Periods begin late", &late);
  print("Update", &update);
  print("Feedback law, with the clock's own time", &law);
  lost += NAME_counted(controller).restarts;
  printf("largest distance of a position from the motion: %.6g rad or m; horizons lost: %lld\n", off,
         (long long)lost);
  return 0;
}
