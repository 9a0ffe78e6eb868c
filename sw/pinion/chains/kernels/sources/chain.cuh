// A long chain in device memory: its links, its states, and what one thread does with one link.
//
// Chains are data: no kernel is printed for a robot. Frames are canonical, which
// chains/kernels/device_chain.py makes them: a joint turns about its z axis or shifts along it,
// or both, so that its motion subspace is S = [0 0 turn 0 0 shift]^T.
//
// Memory of a chain of n links, numbers of type T, components apart: component c of link i is
// numbers[c n + i].
//
//     c        what
//     0 - 8    E, row by row: from parent to child coordinates where q is zero
//     9 - 11   r: the child's origin there, in parent coordinates [m]
//     12 - 21  inertia about the link's origin: mass, first moment h (3), xx, xy, xz, yy, yz, zz
//     22, 23   turn [1] and shift [m] for a unit of q
//
// and behind them, at 24 n, three numbers: the base's acceleration that stands for gravity,
// -gravity [m/s^2]. Several robots: either all have the same chain, or robot b has the one that is
// b chain_step further on.
//
// States (q, qd, qdd, tau) of robots b and links i are anywhere: data[b robot_step + i link_step].
// (B, n) arrays of C have steps n and 1, which serves warps and blocks that compute a robot
// together; one thread a robot reads whole lines where robots are next to each other, 1 and B.
#pragma once

#include "sincos.hpp"
#include "spatial.cuh"

namespace pinion {
namespace parallel {

constexpr int WARP = 32;
constexpr int LINK_NUMBERS = 24;

// A robot's numbers by link, read only.
template <class T> struct Input {
  const T *first;
  long long step;
  PINION_INLINE Input(const T *data, long long robot, long long robot_step, long long step)
      : first(data + robot * robot_step), step(step) {}
  PINION_INLINE T operator[](int link) const { return __ldg(first + link * step); }
};

// The same to write.
template <class T> struct Output {
  T *first;
  long long step;
  PINION_INLINE Output(T *data, long long robot, long long robot_step, long long step)
      : first(data + robot * robot_step), step(step) {}
  PINION_INLINE void put(int link, T x) const { first[link * step] = x; }
};

// What a joint allows: S = [turn z; shift z].
template <class T> struct Joint {
  T turn, shift;
  PINION_INLINE Spatial<T> times(T x) const {
    return {{T(0), T(0), turn * x}, {T(0), T(0), shift * x}};
  }
  // S^T f
  PINION_INLINE T effort(Spatial<T> f) const { return fma(turn, f.angular.z, shift * f.linear.z); }
};

template <class T> struct Chain {
  const T *numbers;
  int n;
  PINION_INLINE Chain(const T *data, long long n, long long robot, long long chain_step)
      : numbers(data + robot * chain_step), n((int)n) {}

  PINION_INLINE T number(int component, int link) const {
    return __ldg(numbers + (long long)component * n + link);
  }
  PINION_INLINE Joint<T> joint(int link) const { return {number(22, link), number(23, link)}; }

  // X_i: where link i is in its parent at q. The turn by the angle a = turn q mixes the first two
  // rows of E, [cos a, sin a; -sin a, cos a]; the shift is along the joint's axis, E's third row.
  PINION_INLINE Placement<T> placement(int link, T q) const {
    const Joint<T> S = joint(link);
    T sine, cosine;
    sincos<T>(S.turn * q, sine, cosine);
    const T along = S.shift * q;
    const Vector<T> x = row(0, link), y = row(3, link), z = row(6, link);
    const Vector<T> turned_x = {fma(cosine, x.x, sine * y.x), fma(cosine, x.y, sine * y.y),
                                fma(cosine, x.z, sine * y.z)};
    const Vector<T> turned_y = {fms(cosine, y.x, sine * x.x), fms(cosine, y.y, sine * x.y),
                                fms(cosine, y.z, sine * x.z)};
    return {{turned_x.x, turned_x.y, turned_x.z, turned_y.x, turned_y.y, turned_y.z, z.x, z.y, z.z},
            plus_scaled(along, z, row(9, link))};
  }
  PINION_INLINE Rigid<T> inertia(int link) const {
    return {number(12, link), row(13, link),    number(16, link), number(17, link),
            number(18, link), number(19, link), number(20, link), number(21, link)};
  }
  // The base's acceleration [0; -gravity].
  PINION_INLINE Spatial<T> base() const {
    const T *const g = numbers + (long long)LINK_NUMBERS * n;
    return {{T(0), T(0), T(0)}, {__ldg(g), __ldg(g + 1), __ldg(g + 2)}};
  }

private:
  PINION_INLINE Vector<T> row(int component, int link) const {
    return {number(component, link), number(component + 1, link), number(component + 2, link)};
  }
};

template <class T> PINION_INLINE Spatial<T> no_spatial() {
  return {{T(0), T(0), T(0)}, {T(0), T(0), T(0)}};
}
template <class T> PINION_INLINE Placement<T> no_move() {
  return {{T(1), T(0), T(0), T(0), T(1), T(0), T(0), T(0), T(1)}, {T(0), T(0), T(0)}};
}

} // namespace parallel
} // namespace pinion
