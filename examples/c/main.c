/* Forward dynamics with its gradient from C, without Python at run time.

   pinion export --cpu iiwa14 fd_derivatives --name iiwa14_fd -o build/iiwa14_fd
   cc examples/c/main.c -Ibuild/iiwa14_fd/include -Lbuild/iiwa14_fd/lib -liiwa14_fd \
      -Wl,-rpath,build/iiwa14_fd/lib -o build/main && build/main */
#include <stdio.h>
#include <stdlib.h>

#include "iiwa14_fd.h"

enum { N = 1000, NV = IIWA14_FD_QD };

int main(void) {
  double *q = calloc(N * NV, sizeof *q), *qd = calloc(N * NV, sizeof *qd);
  double *tau = calloc(N * NV, sizeof *tau), *qdd = calloc(N * NV, sizeof *qdd);
  double *dqdd_dq = calloc(N * NV * NV, sizeof *dqdd_dq);
  double *dqdd_dqd = calloc(N * NV * NV, sizeof *dqdd_dqd);
  if (!q || !qd || !tau || !qdd || !dqdd_dq || !dqdd_dqd) return 1;
  for (int k = 0; k < N * NV; ++k) q[k] = 1e-3 * (k % 997);

  const int answer = iiwa14_fd_f64(N, q, qd, tau, qdd, dqdd_dq, dqdd_dqd, 0);
  if (answer != 0) {
    fprintf(stderr, "iiwa14_fd_f64 answered %d\n", answer);
    return 1;
  }
  printf("%s: qdd of the last sample:", iiwa14_fd_isa());
  for (int k = 0; k < NV; ++k) printf(" %.6f", qdd[(N - 1) * NV + k]);
  printf("\n");
  free(q), free(qd), free(tau), free(qdd), free(dqdd_dq), free(dqdd_dqd);
  return 0;
}
