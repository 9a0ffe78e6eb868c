// Tracks a motion in MuJoCo with an exported controller, as track() of closed_loop.py does:
// MODEL MOTION INNER LATE. Prints the tip at the begin of every period.
#include <mujoco/mujoco.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <vector>

#include "arm.h"

typedef std::vector<double> Vector;

int main(int count, char **words) {
  if (count != 5) return 2;
  mjModel *model = mj_loadModel(words[1], nullptr);
  if (!model || model->nv != ARM_NV) return 2;
  mjData *data = mj_makeData(model);

  std::ifstream file(words[2], std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  const int64_t row = 3 * ARM_NV + ARM_TIP, rows = bytes.size() / sizeof(arm_real) / row;
  const arm_real *numbers = (const arm_real *)bytes.data();
  const arm_motion motion = {rows, numbers, numbers + rows * ARM_NV, numbers + 2 * rows * ARM_NV,
                             numbers + 3 * rows * ARM_NV};
  const size_t lines = arm_bytes() / ARM_ALIGNMENT + 1;
  auto *controller = (arm_controller *)std::aligned_alloc(ARM_ALIGNMENT, lines * ARM_ALIGNMENT);
  if (arm_open(controller, &motion) != ARM_DONE) return 3;

  mj_resetData(model, data);
  for (int i = 0; i < ARM_NV; ++i) data->qpos[i] = motion.q[i];
  mj_forward(model, data);
  const int inner = std::atoi(words[3]), late = std::atoi(words[4]);
  std::deque<Vector> waiting(late, Vector(data->qfrc_bias, data->qfrc_bias + ARM_NV));

  const int site = mj_name2id(model, mjOBJ_SITE, "tip");
  mjData *kinematics = mj_makeData(model);
  for (int64_t period = 0; period + ARM_ROWS <= rows; ++period) {
    mju_copy(kinematics->qpos, data->qpos, ARM_NV);
    mj_kinematics(model, kinematics);
    const double *tip = kinematics->site_xpos + 3 * site;
    std::printf("%.17g %.17g %.17g\n", tip[0], tip[1], tip[2]);
    for (int step = 0; step < inner; ++step) {
      Vector x(data->qpos, data->qpos + ARM_NV), u(ARM_NV);
      x.insert(x.end(), data->qvel, data->qvel + ARM_NV);
      if (step == 0 && arm_update(controller, period, x.data()) != ARM_DONE) return 4;
      arm_efforts(arm_last_law(controller), step * ARM_PERIOD / inner, x.data(), u.data());
      waiting.push_back(u);
      mju_copy(data->qfrc_applied, waiting.front().data(), ARM_NV);
      waiting.pop_front();
      mj_step(model, data);
    }
  }
  return 0;
}
