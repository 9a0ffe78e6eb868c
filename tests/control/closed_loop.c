/* Tracks a motion with the robot that an exported controller knows: MOTION DISPLACEMENT OUT.

   The velocity at the begin is off by DISPLACEMENT in every component. OUT gets doubles, a row for
   each period: its state x, then u and K of its law. Prints the instruction set. */
#include <stdio.h>
#include <stdlib.h>

#include "arm.h"

enum { NQ = ARM_NQ, NV = ARM_NV, NU = ARM_NU, ROW = NQ + NV + NU + ARM_TIP + ARM_CONTACTS };
enum { INNER = 4 };

static void put(FILE *out, double value) { fwrite(&value, sizeof value, 1, out); }

int main(int count, char **words) {
  static arm_real numbers[1 << 20];
  FILE *const in = count == 4 ? fopen(words[1], "rb") : NULL;
  FILE *const out = in ? fopen(words[3], "wb") : NULL;
  if (!out) return 1;
  const int64_t rows = (int64_t)(fread(numbers, sizeof *numbers, 1 << 20, in) / ROW);
  const arm_real *const qd = numbers + rows * NQ, *const tau = qd + rows * NV;
  const arm_motion motion = {rows, numbers, qd, tau, tau + rows * NU, tau + rows * (NU + ARM_TIP)};
  arm_controller *const controller =
      aligned_alloc(ARM_ALIGNMENT, (arm_bytes() / ARM_ALIGNMENT + 1) * ARM_ALIGNMENT);
  if (!controller || arm_open(controller, &motion) != ARM_DONE) return 2;

  double x[NQ + NV], u[NU];
  for (int i = 0; i < NQ; ++i) x[i] = numbers[i];
  for (int i = 0; i < NV; ++i) x[NQ + i] = qd[i] + atof(words[2]);
  for (int64_t period = 0; period + ARM_ROWS <= rows; ++period) {
    if (arm_update(controller, period, x) != ARM_DONE) return 3;
    const arm_law *const law = arm_last_law(controller);
    for (int i = 0; i < NQ + NV; ++i) put(out, x[i]);
    for (int i = 0; i < NU; ++i) put(out, law->u[i]);
    for (int i = 0; i < NU; ++i)
      for (int j = 0; j < 2 * NV; ++j) put(out, law->K[i][j]);
    for (int step = 0; step < INNER; ++step) {
      arm_efforts(law, step * ARM_PERIOD / INNER, x, u);
      arm_simulate(controller, period, ARM_PERIOD / INNER, x, u);
    }
  }
  puts(arm_isa());
  return fclose(out) ? 4 : 0;
}
