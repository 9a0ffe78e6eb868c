// Reads a robot as pinion.robot has it, one joint a line, into a Pinocchio model.
//
// The text comes from model_text.py. Nothing of libpinocchio is linked: the templates are compiled
// here, with this machine's flags, and objects of Eigen must not cross over to a library that was
// compiled with others (their alignment differs).
#pragma once

#include <pinocchio/multibody.hpp>
#include <pinocchio/multibody/joint.hpp>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

// The two kinds of joint that the models have. With Pinocchio's whole collection of 25 compiling
// takes minutes more, the traced graph is the same, and rnea took 4 % longer.
template<typename Scalar_, int Options_>
struct Joints
{
  using Scalar = Scalar_;
  static constexpr int Options = Options_;
  using JointModelRZ = pinocchio::JointModelRevoluteTpl<Scalar, Options, 2>;
  using JointModelPZ = pinocchio::JointModelPrismaticTpl<Scalar, Options, 2>;
  using JointModelVariant = boost::variant<JointModelRZ, JointModelPZ>;
  using JointDataRZ = pinocchio::JointDataRevoluteTpl<Scalar, Options, 2>;
  using JointDataPZ = pinocchio::JointDataPrismaticTpl<Scalar, Options, 2>;
  using JointDataVariant = boost::variant<JointDataRZ, JointDataPZ>;
};

[[noreturn]] inline void stop(const std::string & sentence)
{
  std::fprintf(stderr, "%s\n", sentence.c_str());
  std::exit(2);
}

inline pinocchio::ModelTpl<double, 0, Joints> read_model(const std::string & path)
{
  using JointModel = pinocchio::JointModelTpl<double, 0, Joints>;
  std::ifstream file(path);
  pinocchio::ModelTpl<double, 0, Joints> model;
  double gx, gy, gz;
  std::size_t joints = 0;
  if (!(file >> joints >> gx >> gy >> gz))
    stop("The model text " + path + " has no header; write it with model_text.py.");
  model.gravity.linear() << gx, gy, gz;
  for (std::size_t k = 0; k < joints; ++k)
  {
    std::string name, kind;
    pinocchio::JointIndex parent = 0; // 0 is the base, k + 1 the joint in line k
    Eigen::Matrix3d R, I;
    Eigen::Vector3d p, c;
    double mass;
    file >> name >> kind >> parent;
    for (int i = 0; i < 9; ++i)
      file >> R(i / 3, i % 3);
    file >> p[0] >> p[1] >> p[2] >> mass >> c[0] >> c[1] >> c[2];
    file >> I(0, 0) >> I(0, 1) >> I(0, 2) >> I(1, 1) >> I(1, 2) >> I(2, 2);
    if (!file)
      stop("The model text " + path + " ends within its joints; write it with model_text.py.");
    I(1, 0) = I(0, 1);
    I(2, 0) = I(0, 2);
    I(2, 1) = I(1, 2);
    const pinocchio::SE3 placement(R, p);
    const JointModel motion = kind == "revolute" ? JointModel(pinocchio::JointModelRZ())
                                                 : JointModel(pinocchio::JointModelPZ());
    const pinocchio::JointIndex joint = model.addJoint(parent, motion, placement, name);
    model.appendBodyToJoint(joint, pinocchio::Inertia(mass, c, I), pinocchio::SE3::Identity());
  }
  return model;
}
