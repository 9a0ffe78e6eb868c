// Traces Pinocchio's own algorithms through casadi::SX.
//
//   casadi_trace MODEL FOLDER
//
// MODEL is a text of model_text.py. Writes FOLDER/FUNCTION.VARIANT.casadi, one serialised
// casadi::Function for each function and each way in which Pinocchio computes it (its LOCAL and
// WORLD conventions). Matrices are whole and row by row.
#include "pinocchio_model.hpp"

#include <pinocchio/autodiff/casadi.hpp>

#include <pinocchio/algorithm/aba-derivatives.hpp>
#include <pinocchio/algorithm/aba.hpp>
#include <pinocchio/algorithm/crba.hpp>
#include <pinocchio/algorithm/rnea-derivatives.hpp>
#include <pinocchio/algorithm/rnea.hpp>

#include <vector>

namespace
{
using casadi::SX;

using Model = pinocchio::ModelTpl<SX, 0, Joints>;
using Data = pinocchio::DataTpl<SX, 0, Joints>;
using Vector = Model::VectorXs;
using Matrix = Data::MatrixXs;
using pinocchio::Convention;

Vector symbols(const SX & sx)
{
  Vector result(sx.numel());
  for (casadi_int i = 0; i < sx.numel(); ++i)
    result[i] = sx(i);
  return result;
}

SX expressions(const Eigen::Ref<const Vector> & vector)
{
  std::vector<SX> rows;
  for (Eigen::Index i = 0; i < vector.size(); ++i)
    rows.push_back(vector[i]);
  return SX::vertcat(rows);
}

// CasADi keeps a matrix column by column: its transpose, so that the C has it row by row. It is
// made dense, or its zeros would not be written.
SX rows_of(const Matrix & matrix)
{
  SX result(matrix.cols(), matrix.rows());
  for (Eigen::Index i = 0; i < matrix.rows(); ++i)
    for (Eigen::Index j = 0; j < matrix.cols(); ++j)
      result(j, i) = matrix(i, j);
  return SX::densify(result);
}

// Pinocchio computes the upper triangle of a symmetric matrix.
Matrix whole(const Matrix & upper)
{
  Matrix result = upper;
  for (Eigen::Index i = 0; i < result.rows(); ++i)
    for (Eigen::Index j = 0; j < i; ++j)
      result(i, j) = upper(j, i);
  return result;
}

class Tracer
{
public:
  Tracer(const pinocchio::ModelTpl<double, 0, Joints> & model, const std::string & folder)
  : model_(model.cast<SX>())
  , folder_(folder)
  , q_(SX::sym("q", model.nq))
  , qd_(SX::sym("qd", model.nv))
  , qdd_(SX::sym("qdd", model.nv))
  , tau_(SX::sym("tau", model.nv))
  , minv_(SX::sym("minv", model.nv, model.nv))
  , q(symbols(q_))
  , v(symbols(qd_))
  , a(symbols(qdd_))
  , u(symbols(tau_))
  {
  }

  void trace_all()
  {
    {
      Data data(model_);
      pinocchio::rnea(model_, data, q, v, a);
      save("rnea", "local", {q_, qd_, qdd_}, {expressions(data.tau)});
    }
    for (const Convention convention : {Convention::LOCAL, Convention::WORLD})
    {
      const std::string variant = convention == Convention::LOCAL ? "local" : "world";
      Data data(model_);
      pinocchio::aba(model_, data, q, v, u, convention);
      save("aba", variant, {q_, qd_, tau_}, {expressions(data.ddq)});
      Data other(model_);
      pinocchio::crba(model_, other, q, convention);
      save("crba", variant, {q_}, {rows_of(whole(other.M))});
    }
    {
      Data data(model_);
      pinocchio::computeMinverse(model_, data, q);
      save("minv", "local", {q_}, {rows_of(whole(data.Minv))});
    }
    {
      Data data(model_);
      pinocchio::computeRNEADerivatives(model_, data, q, v, a);
      save(
        "rnea_derivatives", "world", {q_, qd_, qdd_},
        {rows_of(data.dtau_dq), rows_of(data.dtau_dv)});
      Matrix minv(model_.nv, model_.nv);
      for (int i = 0; i < model_.nv; ++i)
        for (int j = 0; j < model_.nv; ++j)
          minv(i, j) = minv_(j, i);
      const Matrix dq = -(minv * data.dtau_dq), dqd = -(minv * data.dtau_dv);
      save(
        "fd_derivatives_from_minv", "world", {q_, qd_, qdd_, minv_}, {rows_of(dq), rows_of(dqd)});
    }
    {
      Data data(model_);
      pinocchio::computeABADerivatives(model_, data, q, v, u);
      save(
        "fd_derivatives", "world", {q_, qd_, tau_},
        {expressions(data.ddq), rows_of(data.ddq_dq), rows_of(data.ddq_dv)});
    }
  }

private:
  void save(
    const std::string & name,
    const std::string & variant,
    const std::vector<SX> & in,
    const std::vector<SX> & out) const
  {
    casadi::Function(name, in, out).save(folder_ + "/" + name + "." + variant + ".casadi");
  }

  Model model_;
  std::string folder_;
  SX q_, qd_, qdd_, tau_, minv_;
  Vector q, v, a, u;
};
} // namespace

int main(int count, char ** words)
{
  if (count != 3)
    stop("Give a model text and a folder: casadi_trace MODEL FOLDER.");
  Tracer(read_model(words[1]), words[2]).trace_all();
}
