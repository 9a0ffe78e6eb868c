// Times one function of Pinocchio, in float64 and through its own headers, on one core.
//
//   pinocchio_native MODEL INPUTS OUTPUTS STATES ROUNDS
//
// Compile with -DFUNCTION=rnea and the like: one function per program limits the compiler's memory.
// MODEL is a text of model_text.py, INPUTS the arrays of all states one after another (float64,
// in the order q, qd, qdd or tau, minv). Writes the results to OUTPUTS in the same order, whole and
// row by row, and prints the nanoseconds per evaluation of each round as JSON.
//
// A round calls the function once for each state. Results stay in Pinocchio's Data: neither copies
// nor the missing triangle of a symmetric matrix are in its time.
#define KIND_crba 1
#define KIND_rnea 2
#define KIND_aba 3
#define KIND_minv 4
#define KIND_rnea_derivatives 5
#define KIND_fd_derivatives 6
#define KIND_fd_derivatives_from_minv 7
#define JOINED(a, b) a##b
#define KIND_OF(name) JOINED(KIND_, name)
#define KIND KIND_OF(FUNCTION)

#include "pinocchio_model.hpp"

#if KIND == KIND_crba
  #include <pinocchio/algorithm/crba.hpp>
#elif KIND == KIND_rnea
  #include <pinocchio/algorithm/rnea.hpp>
#elif KIND == KIND_aba || KIND == KIND_minv
  #include <pinocchio/algorithm/aba.hpp>
#elif KIND == KIND_fd_derivatives
  #include <pinocchio/algorithm/aba-derivatives.hpp>
#else
  #include <pinocchio/algorithm/rnea-derivatives.hpp>
#endif

#include <ctime>
#include <vector>

namespace
{
using Model = pinocchio::ModelTpl<double, 0, Joints>;
using Data = pinocchio::DataTpl<double, 0, Joints>;
using Matrix = Eigen::MatrixXd;
using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Vector = Eigen::VectorXd;

struct State
{
  Vector q, qd, third; // third: qdd or tau
  Matrix minv;
};

class Numbers
{
public:
  Numbers(const char * path, std::size_t states)
  : states_(states)
  {
    std::ifstream file(path, std::ios::binary);
    values_.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }

  // The next array of all states; empty where the file has ended.
  std::vector<Vector> next(Eigen::Index size)
  {
    std::vector<Vector> result;
    const std::size_t bytes = sizeof(double) * static_cast<std::size_t>(size);
    if (at_ + states_ * bytes > values_.size())
      return result;
    for (std::size_t i = 0; i < states_; ++i, at_ += bytes)
      result.push_back(
        Eigen::Map<const Vector>(reinterpret_cast<const double *>(values_.data() + at_), size));
    return result;
  }

private:
  std::size_t states_, at_ = 0;
  std::vector<char> values_;
};

struct Opponent
{
  Model model;
  Data data;
  Matrix dq, dqd; // of fd_derivatives_from_minv

  explicit Opponent(const Model & given)
  : model(given)
  , data(given)
  , dq(Matrix::Zero(given.nv, given.nv))
  , dqd(dq)
  {
  }

  __attribute__((noinline)) void compute(const State & s)
  {
#if KIND == KIND_crba
    pinocchio::crba(model, data, s.q);
#elif KIND == KIND_rnea
    pinocchio::rnea(model, data, s.q, s.qd, s.third);
#elif KIND == KIND_aba
    pinocchio::aba(model, data, s.q, s.qd, s.third);
#elif KIND == KIND_minv
    pinocchio::computeMinverse(model, data, s.q);
#elif KIND == KIND_fd_derivatives
    pinocchio::computeABADerivatives(model, data, s.q, s.qd, s.third);
#else
    pinocchio::computeRNEADerivatives(model, data, s.q, s.qd, s.third);
  #if KIND == KIND_fd_derivatives_from_minv
    dq.noalias() = -s.minv * data.dtau_dq;
    dqd.noalias() = -s.minv * data.dtau_dv;
  #endif
#endif
  }

  void append(std::vector<RowMatrix> & results) const
  {
#if KIND == KIND_crba
    results = {Matrix(data.M.selfadjointView<Eigen::Upper>())};
#elif KIND == KIND_rnea
    results = {data.tau};
#elif KIND == KIND_aba
    results = {data.ddq};
#elif KIND == KIND_minv
    results = {Matrix(data.Minv.selfadjointView<Eigen::Upper>())};
#elif KIND == KIND_rnea_derivatives
    results = {data.dtau_dq, data.dtau_dv};
#elif KIND == KIND_fd_derivatives
    results = {data.ddq, data.ddq_dq, data.ddq_dv};
#else
    results = {dq, dqd};
#endif
  }
};

double nanoseconds(clockid_t clock)
{
  timespec now;
  clock_gettime(clock, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

void print(const char * name, const std::vector<double> & values)
{
  std::printf("\"%s\": [", name);
  for (std::size_t k = 0; k < values.size(); ++k)
    std::printf("%s%.4f", k ? ", " : "", values[k]);
  std::printf("]");
}
} // namespace

int main(int count, char ** words)
{
  if (count != 6)
    stop("Give five words: pinocchio_native MODEL INPUTS OUTPUTS STATES ROUNDS.");
  Opponent opponent(read_model(words[1]));
  const std::size_t states = std::strtoul(words[4], nullptr, 10);
  const std::size_t rounds = std::strtoul(words[5], nullptr, 10);
  const Eigen::Index n = opponent.model.nv;

  Numbers numbers(words[2], states);
  const auto q = numbers.next(n), qd = numbers.next(n), third = numbers.next(n);
  const auto minv = numbers.next(n * n);
  std::vector<State> inputs(states);
  for (std::size_t i = 0; i < states && i < q.size(); ++i)
  {
    inputs[i].q = q[i];
    if (!qd.empty())
      inputs[i].qd = qd[i];
    if (!third.empty())
      inputs[i].third = third[i];
    if (!minv.empty())
      inputs[i].minv = Eigen::Map<const RowMatrix>(minv[i].data(), n, n);
  }

  std::vector<std::vector<RowMatrix>> results(states);
  for (std::size_t i = 0; i < states; ++i)
  {
    opponent.compute(inputs[i]);
    opponent.append(results[i]);
  }
  std::ofstream file(words[3], std::ios::binary);
  for (std::size_t k = 0; states > 0 && k < results[0].size(); ++k)
    for (std::size_t i = 0; i < states; ++i)
      file.write(
        reinterpret_cast<const char *>(results[i][k].data()),
        static_cast<std::streamsize>(sizeof(double)) * results[i][k].size());
  file.close();

  std::vector<double> cpu, wall;
  for (std::size_t round = 0; round < rounds; ++round)
  {
    const double wall_from = nanoseconds(CLOCK_MONOTONIC);
    const double cpu_from = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
    for (const State & state : inputs)
      opponent.compute(state);
    cpu.push_back((nanoseconds(CLOCK_THREAD_CPUTIME_ID) - cpu_from) / double(states));
    wall.push_back((nanoseconds(CLOCK_MONOTONIC) - wall_from) / double(states));
  }
  std::printf("{");
  print("cpu", cpu);
  std::printf(", ");
  print("wall", wall);
  std::printf("}\n");
}
