// Rigid body dynamics of one sample by the threads of one block: for small batches, where one
// thread per sample would leave most of a GPU idle.
//
// A kernel (compute/cuda/cooperative.py) is a sequence of the phases below, with barriers between
// them. Within a phase each thread does the whole work of one link, one column or one entry, and
// reads nothing that another thread writes in the same phase.
//
// Sources: Plancher, Neuman, Bourgeat, Kuindersma, Devadas, Reddi, "Accelerating Robot Dynamics
// Gradients on a CPU, GPU, and FPGA", 2021, Algorithms 1, 3 and 4, whose symbols stand in the
// comments; Featherstone 2008, chapter 6, for the inertia matrix and its factorisation.
//
// Links are numbered depth first here, so that the links k that link i carries, and i itself, are
// those from i to i + size(i) - 1. What stands for a pair of a link i and a link k that it carries
// has the number start(i) + k - i. Numbers of the model, which has its own order, are dof(i).
//
// Walks instead of levels: the passes of Algorithm 1 take as many steps as the tree has levels. Here
// every link's thread takes them all for itself, from the base to its link and back, which a warp
// does in the time of its longest path, without barriers between levels.
//
// Arrays in shared memory have components apart, [component][link], so that threads side by side
// read words side by side.
#pragma once

#include "sincos.hpp"
#include "spatial.cuh"

// The type of a word in shared memory; a test puts one here that notes who reads and writes it.
#ifndef PINION_SHARED
#define PINION_SHARED(T) T
#endif

namespace pinion {

// R, the robot, has
//   T                     float or double
//   n, pairs, levels      links, pairs of links as above, levels of the tree
//   threads               of the block
//   second                the thread where a second group of links begins: of another warp
//   turning               every joint is revolute
//   branched              a link's parent may be another than the link before it
//   trees                 joints at the base
//   renumbered            dof(i) may be another than i
//   gravity_x, _y, _z     of the base [m/s^2]
//   At                    where arrays begin in shared memory, as numbers of T
//   Index                 where tables begin among the indices
template <class R> struct Block {
  typedef typename R::T T;
  typedef typename R::At At;
  typedef typename R::Index Index;
  typedef PINION_SHARED(T) Word;
  typedef PINION_SHARED(short) Entry;
  static constexpr int n = R::n, pairs = R::pairs, threads = R::threads;

  Word *const memory;
  Entry *const indices;
  const T *const numbers;
  const short *const tables;
  const int thread;

  // shared : R::words numbers, then the indices.
  // numbers : (12, n) E and r of the joints' frames in the parents' [1, m]; (10, n) mass, h and I of
  //     the links; unless R::turning (2, n) of S. The last two are copied to At::constants.
  // tables : of the tree; the first Index::count are copied.
  // No copy is there before the next barrier.
  PINION_INLINE Block(T *shared, const T *numbers, const short *tables)
      : memory((Word *)shared), indices((Entry *)(shared + R::words)), numbers(numbers), tables(tables),
        thread((int)threadIdx.x) {
    for (int k = thread; k < R::constants; k += threads)
      memory[At::constants + k] = numbers[12 * n + k];
    for (int k = thread; k < Index::count; k += threads) indices[k] = tables[k];
  }
  // Sets what no phase writes: entries between links of which none carries the other.
  PINION_INLINE void clear(int from, int count) const {
    for (int k = thread; k < count; k += threads) memory[from + k] = T(0);
  }

  // The robot.
  PINION_INLINE int parent(int i) const { return indices[Index::parent + i]; } // -1: the base
  PINION_INLINE int size(int i) const { return indices[Index::size + i]; }
  PINION_INLINE int start(int i) const { return indices[Index::start + i]; }
  PINION_INLINE int level(int i) const { return indices[Index::level + i]; } // 0 at the base
  // The link at a level on the path from the base to link k.
  PINION_INLINE int path(int k, int level) const {
    return indices[Index::path + indices[Index::paths + k] + level];
  }
  PINION_INLINE int dof(int i) const {
    if constexpr (R::renumbered) return tables[Index::dof + i];
    return i;
  }
  PINION_INLINE int place(int dof) const { // the inverse of dof(i)
    if constexpr (R::renumbered) return tables[Index::place + dof];
    return dof;
  }
  // First link of the tree that link i is in, and the first of the next one.
  PINION_INLINE int tree_begin(int i) const {
    if constexpr (R::trees > 1) return path(i, 0);
    return 0;
  }
  PINION_INLINE int tree_end(int i) const {
    if constexpr (R::trees > 1) return path(i, 0) + size(path(i, 0));
    return n;
  }

  // Arrays [component][count] in shared memory.
  PINION_INLINE Vector<T> vector(int at, int count, int k) const {
    const Word *const p = memory + at + k;
    return {p[0], p[count], p[2 * count]};
  }
  PINION_INLINE void put(int at, int count, int k, Vector<T> a) const {
    Word *const p = memory + at + k;
    p[0] = a.x;
    p[count] = a.y;
    p[2 * count] = a.z;
  }
  PINION_INLINE Spatial<T> spatial(int at, int count, int k) const {
    return {vector(at, count, k), vector(at + 3 * count, count, k)};
  }
  PINION_INLINE void put(int at, int count, int k, Spatial<T> a) const {
    put(at, count, k, a.angular);
    put(at + 3 * count, count, k, a.linear);
  }
  PINION_INLINE Matrix<T> matrix(int at, int i) const {
    const Vector<T> x = vector(at, n, i), y = vector(at + 3 * n, n, i), z = vector(at + 6 * n, n, i);
    return {x.x, x.y, x.z, y.x, y.y, y.z, z.x, z.y, z.z};
  }
  PINION_INLINE Rigid<T> rigid(int at, int i) const {
    const Word *const p = memory + at + i;
    return {p[0],     {p[n], p[2 * n], p[3 * n]}, p[4 * n], p[5 * n], p[6 * n],
            p[7 * n], p[8 * n],                   p[9 * n]};
  }
  PINION_INLINE Placement<T> placement(int i) const {
    return {matrix(At::X, i), vector(At::X + 9 * n, n, i)};
  }

  // S = [turn z; shift z]: 1, 0 where joint i is revolute, 0, 1 where prismatic, 1, pitch of a screw.
  PINION_INLINE T turn(int i) const {
    if constexpr (R::turning) return T(1);
    return memory[At::constants + 10 * n + i];
  }
  PINION_INLINE T shift(int i) const {
    if constexpr (R::turning) return T(0);
    return memory[At::constants + 11 * n + i];
  }
  // m + S x
  PINION_INLINE void add_axis(Spatial<T> &m, int i, T x) const {
    if constexpr (R::turning) {
      m.angular.z += x;
    } else {
      m.angular.z = fma(turn(i), x, m.angular.z);
      m.linear.z = fma(shift(i), x, m.linear.z);
    }
  }
  // m x S
  PINION_INLINE Spatial<T> cross_axis(Spatial<T> m, int i) const {
    const Vector<T> angular = cross_z(m.angular), linear = cross_z(m.linear);
    if constexpr (R::turning) {
      return {angular, linear};
    } else {
      const Vector<T> none = {T(0), T(0), T(0)};
      return {plus_scaled(turn(i), angular, none),
              plus_scaled(turn(i), linear, plus_scaled(shift(i), angular, none))};
    }
  }
  // S^T f
  PINION_INLINE T effort(int i, Spatial<T> f) const {
    if constexpr (R::turning) return f.angular.z;
    return fma(turn(i), f.angular.z, shift(i) * f.linear.z);
  }
  // f + S x* f
  PINION_INLINE Spatial<T> plus_turned(int i, Spatial<T> f, Spatial<T> net) const {
    const Vector<T> moment = cross_z(net.angular), force = cross_z(net.linear);
    if constexpr (R::turning) {
      return {f.angular - moment, f.linear - force};
    } else {
      return {plus_scaled(-turn(i), moment, plus_scaled(-shift(i), force, f.angular)),
              plus_scaled(-turn(i), force, f.linear)};
    }
  }

  // Loads and stores of a sample, one thread per element.
  PINION_INLINE void take(int at, const T *given) const {
    for (int i = thread; i < n; i += threads) memory[at + i] = given[dof(i)];
  }
  // Six numbers a link, an angular and a linear vector.
  PINION_INLINE void take_links(int at, const T *given) const {
    for (int x = thread; x < 6 * n; x += threads) memory[at + x % 6 * n + place(x / 6)] = given[x];
  }
  // From the triangle below the diagonal, in the model's order.
  PINION_INLINE void take_symmetric(int at, const T *given) const {
    for (int x = thread; x < n * n; x += threads) {
      const int i = x / n, j = x % n;
      memory[at + place(i) * n + place(j)] = i > j ? given[x] : given[j * n + i];
    }
  }
  PINION_INLINE void give(int at, T *result) const {
    for (int i = thread; i < n; i += threads) result[dof(i)] = memory[at + i];
  }
  PINION_INLINE void give_matrix(int at, T *result) const {
    for (int x = thread; x < n * n; x += threads)
      result[x] = memory[at + place(x / n) * n + place(x % n)];
  }

  // Algorithm 1, line 3: X of every joint at its position, one thread per joint.
  //
  // E = R E_tree with the rotation R of a joint about its z; a shift along z stands before or behind
  // R, which leaves z as it is, so that r = r_tree + E_tree^T z shift.
  PINION_INLINE void transforms(const T *q) const {
    for (int i = thread; i < n; i += threads) {
      const T position = q[dof(i)];
      T s, c;
      // S from the table: before the first barrier there is no copy.
      sincos<T>(R::turning ? position : numbers[22 * n + i] * position, s, c);
      for (int k = 0; k < 3; ++k) {
        const T *const placed = numbers + k * n + i;
        const T x = placed[0], y = placed[3 * n], z = placed[6 * n];
        memory[At::X + k * n + i] = fma(c, x, s * y);
        memory[At::X + (3 + k) * n + i] = fms(c, y, s * x);
        memory[At::X + (6 + k) * n + i] = z;
        T r = placed[9 * n];
        if constexpr (!R::turning) r = fma(numbers[23 * n + i] * position, z, r);
        memory[At::X + (9 + k) * n + i] = r;
      }
    }
  }

  // Algorithm 1, lines 4 and 5, from the base to link k: v = X v + S qd, a = X a + S qdd + v x S qd,
  // where the base accelerates against gravity. Without `accelerated`, qdd is 0.
  template <bool accelerated> PINION_INLINE void walk(int k, Spatial<T> &v, Spatial<T> &a) const {
    v = {{T(0), T(0), T(0)}, {T(0), T(0), T(0)}};
    a = {{T(0), T(0), T(0)}, {T(-R::gravity_x), T(-R::gravity_y), T(-R::gravity_z)}};
    for (int s = 0; s <= level(k); ++s) {
      const int i = path(k, s);
      const Placement<T> X = placement(i);
      const T rate = memory[At::qd + i];
      v = X.motion(v);
      a = X.motion(a);
      add_axis(v, i, rate);
      if constexpr (accelerated) add_axis(a, i, memory[At::qdd + i]);
      const Spatial<T> coriolis = cross_axis(v, i);
      a.angular = plus_scaled(rate, coriolis.angular, a.angular);
      a.linear = plus_scaled(rate, coriolis.linear, a.linear);
    }
  }
  // Algorithm 1, line 6: f = I a + v x* I v of link k alone.
  PINION_INLINE Spatial<T> force(int k, Spatial<T> v, Spatial<T> a) const {
    const Rigid<T> inertia = rigid(At::constants, k);
    return inertia.times(a) + cross_force(v, inertia.times(v));
  }
  // Algorithm 1, lines 7 to 9, for the force of link k alone: what each joint on the path to the
  // base has of it. What it passes, f or S^T f, is added up by the joint.
  PINION_INLINE void carry_force(int k, Spatial<T> f) const {
    for (int i = k;;) {
      put(At::carried_force, pairs, start(i) + k - i, f);
      const int next = parent(i);
      if (next < 0) return;
      f = placement(i).force(f);
      i = next;
    }
  }
  PINION_INLINE void carry_effort(int k, Spatial<T> f) const {
    for (int i = k;;) {
      memory[At::carried_effort + start(i) + k - i] = effort(i, f);
      const int next = parent(i);
      if (next < 0) return;
      f = placement(i).force(f);
      i = next;
    }
  }

  // Algorithm 1 up to the sums, one thread per link.
  template <bool accelerated, bool kept> PINION_INLINE void inverse_dynamics() const {
    for (int k = thread; k < n; k += threads) {
      Spatial<T> v, a;
      walk<accelerated>(k, v, a);
      if constexpr (kept) {
        put(At::v, n, k, v);
        put(At::a, n, k, a);
      }
      carry_effort(k, force(k, v, a));
    }
  }
  // The sum of what all links ask of joint i.
  PINION_INLINE T total_effort(int i) const {
    const Word *const carried = memory + At::carried_effort + start(i);
    T sum = carried[0];
    for (int k = 1; k < size(i); ++k) sum += carried[k];
    return sum;
  }
  PINION_INLINE void efforts(T *tau) const {
    for (int i = thread; i < n; i += threads) tau[dof(i)] = total_effort(i);
  }
  // tau - c of equation (1).
  PINION_INLINE void residual(const T *tau) const {
    for (int i = thread; i < n; i += threads)
      memory[At::residual + i] = tau[dof(i)] - total_effort(i);
  }

  // Algorithm 3, line 1 up to the sums, one thread per link: v', a' and f' at given accelerations.
  PINION_INLINE void states() const {
    for (int k = thread; k < n; k += threads) {
      Spatial<T> v, a;
      walk<true>(k, v, a);
      put(At::v, n, k, v);
      put(At::a, n, k, a);
      drag(k, v);
      carry_force(k, force(k, v, a));
    }
  }
  // The same where v is there already, and a for accelerations of 0: a is linear in them, so that
  // only X da + S qdd is carried from the base.
  PINION_INLINE void accelerated_states() const {
    for (int k = thread; k < n; k += threads) {
      Spatial<T> gained = {{T(0), T(0), T(0)}, {T(0), T(0), T(0)}};
      for (int s = 0; s <= level(k); ++s) {
        const int i = path(k, s);
        gained = placement(i).motion(gained);
        add_axis(gained, i, memory[At::qdd + i]);
      }
      const Spatial<T> v = spatial(At::v, n, k), a = spatial(At::a, n, k) + gained;
      put(At::a, n, k, a);
      drag(k, v);
      carry_force(k, force(k, v, a));
    }
  }
  // Algorithm 4, lines 1 to 4, as far as they do not vanish below (columns): what multiplies dv in
  // line 12, where mu gamma = dv x* I v is linear in dv too. The matrix of dv -> dv x* I v + v x* I dv
  // has the 3x3 blocks
  //
  //   [w]I - [v][h] - [n]   [h][w]         with I v = [n; p]; its lower right one is not stored.
  //   -[w][h] - [p]         m [w]
  PINION_INLINE void drag(int k, Spatial<T> v) const {
    const Rigid<T> I = rigid(At::constants, k);
    const Spatial<T> momentum = I.times(v);
    const Vector<T> units[3] = {{T(1), T(0), T(0)}, {T(0), T(1), T(0)}, {T(0), T(0), T(1)}};
    const Vector<T> columns[3] = {{I.xx, I.xy, I.xz}, {I.xy, I.yy, I.yz}, {I.xz, I.yz, I.zz}};
    for (int c = 0; c < 3; ++c) {
      const Vector<T> lever = cross(I.h, units[c]), turned = cross(v.angular, units[c]);
      // A column of a block stands in each of its three rows.
      const Vector<T> first = cross(v.angular, columns[c]) - cross(v.linear, lever) -
                              cross(momentum.angular, units[c]);
      put(At::drag + c * n, 3 * n, k, first);
      put(At::drag + (9 + c) * n, 3 * n, k, cross(I.h, turned));
      put(At::drag + (18 + c) * n, 3 * n, k,
          cross(lever, v.angular) - cross(momentum.linear, units[c]));
    }
  }
  // Where v', a' and f' are given, this is all that is left of lines 1 to 4.
  PINION_INLINE void drags() const {
    for (int k = thread; k < n; k += threads) drag(k, spatial(At::v, n, k));
  }
  // f' of what each joint carries, one thread per component.
  PINION_INLINE void net_forces() const {
    for (int x = thread; x < 6 * n; x += threads) {
      const int i = x % n;
      const Word *const carried = memory + At::carried_force + x / n * pairs + start(i);
      T sum = carried[0];
      for (int k = 1; k < size(i); ++k) sum += carried[k];
      memory[At::net + x] = sum;
    }
  }

  // Algorithm 4, lines 5 to 10: dv and da of the links that joint j carries, one thread per column,
  // with respect to q_j or qd_j; everywhere else they are zero.
  //
  //   by q    at j: dv = v x S    da = a x S          below: dv = X dv    da = X da + dv x S qd
  //   by qd   at j: dv = S        da = v x S
  //
  // These are alpha and delta of the paper: (X v_p) x S = v x S because S x S = 0, and in da by q
  // the terms with qd of beta and rho cancel.
  PINION_INLINE void columns() const {
    for (int column = thread; column < 2 * n; column += threads) {
      const bool by_rate = column >= n;
      const int j = by_rate ? column - n : column, last = j + size(j);
      const int at = At::columns + (by_rate ? pairs : 0) + start(j) - j; // behind it the link
      Spatial<T> v = cross_axis(spatial(At::v, n, j), j), a;
      if (by_rate) {
        a = v;
        v = {{T(0), T(0), T(0)}, {T(0), T(0), T(0)}};
        add_axis(v, j, T(1));
      } else {
        a = cross_axis(spatial(At::a, n, j), j);
      }
      put(at, 2 * pairs, j, v);
      put(at + 12 * pairs, 2 * pairs, j, a);
      for (int i = j + 1; i < last; ++i) {
        if constexpr (R::branched) {
          const int before = parent(i);
          if (before != i - 1) {
            v = spatial(at, 2 * pairs, before);
            a = spatial(at + 12 * pairs, 2 * pairs, before);
          }
        }
        const Placement<T> X = placement(i);
        v = X.motion(v);
        a = X.motion(a);
        const T rate = memory[At::qd + i];
        const Spatial<T> coriolis = cross_axis(v, i);
        a.angular = plus_scaled(rate, coriolis.angular, a.angular);
        a.linear = plus_scaled(rate, coriolis.linear, a.linear);
        put(at, 2 * pairs, i, v);
        put(at + 12 * pairs, 2 * pairs, i, a);
      }
    }
  }
  // Algorithm 4, lines 11 and 12: df = I da + dv x* I v + v x* I dv, a thread per link and column;
  // df takes da's place.
  PINION_INLINE void column_forces() const {
    for (int x = thread; x < 2 * pairs; x += threads) {
      const int i = indices[Index::link + (x < pairs ? x : x - pairs)];
      const Spatial<T> v = spatial(At::columns, 2 * pairs, x);
      const Rigid<T> I = rigid(At::constants, i);
      const Spatial<T> f = I.times(spatial(At::columns + 12 * pairs, 2 * pairs, x));
      const Vector<T> turned = cross(vector(At::v, n, i), v.linear);
      put(At::columns + 12 * pairs, 2 * pairs, x,
          Spatial<T>{f.angular + matrix(At::drag, i) * v.angular +
                         matrix(At::drag + 9 * n, i) * v.linear,
                     plus_scaled(I.mass, turned, f.linear) +
                         matrix(At::drag + 18 * n, i) * v.angular});
    }
  }
  // Algorithm 4, lines 13 to 16: df from the last link that joint j carries up to j, then on to the
  // base with S x* f' by q_j; dtau = S^T df. One thread per column, (2, n, n) by q and by qd.
  PINION_INLINE void column_efforts() const {
    for (int column = thread; column < 2 * n; column += threads) {
      const bool by_rate = column >= n;
      const int j = by_rate ? column - n : column;
      const int at = At::columns + (by_rate ? 13 : 12) * pairs + start(j) - j;
      Word *const dtau = memory + At::dtau + (by_rate ? n * n : 0) + j;
      Spatial<T> f = spatial(at, 2 * pairs, j + size(j) - 1);
      for (int i = j + size(j) - 1; i > j; --i) {
        dtau[i * n] = effort(i, f);
        f = placement(i).force(f);
        if constexpr (R::branched) {
          const int before = parent(i);
          if (before != i - 1) {
            put(at, 2 * pairs, before, spatial(at, 2 * pairs, before) + f);
            f = spatial(at, 2 * pairs, i - 1);
            continue;
          }
        }
        f = spatial(at, 2 * pairs, i - 1) + f;
      }
      dtau[j * n] = effort(j, f);
      if (!by_rate) f = plus_turned(j, f, spatial(At::net, n, j));
      for (int i = j, next = parent(j); next >= 0; next = parent(i)) {
        f = placement(i).force(f);
        i = next;
        dtau[i * n] = effort(i, f);
      }
    }
  }

  // Composite inertias (Featherstone 2008, table 6.2), up to the sums: the inertia of link k as each
  // link on the path to the base sees it, one thread per link.
  PINION_INLINE void composites() const {
    for (int k = (thread + threads - R::second) % threads; k < n; k += threads) {
      Rigid<T> inertia = rigid(At::constants, k);
      for (int i = k, next = parent(k); next >= 0; next = parent(i)) {
        inertia = inertia.to_parent(placement(i));
        i = next;
        const int at = At::carried_inertia + start(i) + k - i;
        memory[at] = inertia.mass;
        put(at + pairs, pairs, 0, inertia.h);
        put(at + 4 * pairs, pairs, 0, Vector<T>{inertia.xx, inertia.xy, inertia.xz});
        put(at + 7 * pairs, pairs, 0, Vector<T>{inertia.yy, inertia.yz, inertia.zz});
      }
    }
  }
  // One thread per component.
  PINION_INLINE void net_composites() const {
    for (int x = thread; x < 10 * n; x += threads) {
      const int i = x % n;
      const Word *const carried = memory + At::carried_inertia + x / n * pairs + start(i);
      T sum = memory[At::constants + x];
      for (int k = 1; k < size(i); ++k) sum += carried[k];
      memory[At::composite + x] = sum;
    }
  }
  // M_ji = S_j^T X^T IC_i S_i for i and joints j on its path to the base, a thread per column i.
  PINION_INLINE void inertia_matrix() const {
    for (int k = thread; k < n; k += threads) {
      Spatial<T> S = {{T(0), T(0), T(0)}, {T(0), T(0), T(0)}};
      add_axis(S, k, T(1));
      Spatial<T> f = rigid(At::composite, k).times(S);
      for (int i = k;;) {
        memory[At::M + start(i) + k - i] = effort(i, f);
        const int next = parent(i);
        if (next < 0) break;
        f = placement(i).force(f);
        i = next;
      }
    }
  }
  PINION_INLINE void give_inertia_matrix(T *result) const {
    for (int x = thread; x < n * n; x += threads) {
      const int r = place(x / n), c = place(x % n), i = r < c ? r : c, k = r < c ? c : r;
      result[x] = k < i + size(i) ? memory[At::M + start(i) + k - i] : T(0);
    }
  }

  // M = L^T D L (Featherstone 2008, chapter 6.5) without fill-in, for the links of one level, all
  // those below being done; one thread per entry. In M's place are D and L D, i.e. what is left of
  // entry (i, k) when the links behind k are eliminated:
  //
  //   W_ik = M_ik - sum over l behind k of W_il W_kl / W_ll
  PINION_INLINE void eliminate(int level) const {
    const int end = indices[Index::levels + level + 1];
    for (int x = indices[Index::levels + level] + thread; x < end; x += threads) {
      const int pair = indices[Index::order + x], k = indices[Index::link + pair];
      const Word *const own = memory + At::M + start(k);
      T rest = memory[At::M + pair];
      for (int l = 1; l < size(k); ++l)
        rest = fnma(own[l] * memory[At::pivot + k + l], memory[At::M + pair + l], rest);
      memory[At::M + pair] = rest;
      if (pair == start(k)) memory[At::pivot + k] = recip(rest); // (k, k)
    }
  }
  // M^-1, a thread per column c: L^T D z = e_c from c to the base, then L x = z from the base to c,
  // and the other triangle by symmetry.
  PINION_INLINE void inverse_columns() const {
    for (int c = thread; c < n; c += threads) {
      Word *const column = memory + At::minv + c;
      for (int s = level(c); s >= 0; --s) {
        const int i = path(c, s);
        T sum = i == c ? T(1) : T(0);
        for (int l = level(c); l > s; --l) {
          const int k = path(c, l);
          sum = fnma(memory[At::M + start(i) + k - i], column[k * n], sum);
        }
        column[i * n] = sum * memory[At::pivot + i];
      }
      for (int k = tree_begin(c); k <= c; ++k) {
        T sum = T(0);
        for (int l = 0; l < level(k); ++l) {
          const int i = path(k, l);
          sum = fma(memory[At::M + start(i) + k - i], column[i * n], sum);
        }
        const T given = c < k + size(k) ? column[k * n] : T(0);
        const T x = fnma(memory[At::pivot + k], sum, given);
        column[k * n] = x;
        memory[At::minv + c * n + k] = x;
      }
    }
  }
  // qdd = M^-1 (tau - c), equation (1), one thread per joint.
  PINION_INLINE T acceleration(int i) const {
    T sum = T(0);
    for (int k = tree_begin(i); k < tree_end(i); ++k)
      sum = fma(memory[At::minv + i * n + k], memory[At::residual + k], sum);
    return sum;
  }
  PINION_INLINE void accelerations(T *qdd) const {
    for (int i = thread; i < n; i += threads) qdd[dof(i)] = acceleration(i);
  }
  PINION_INLINE void kept_accelerations(T *qdd) const {
    for (int i = thread; i < n; i += threads) memory[At::qdd + i] = qdd[dof(i)] = acceleration(i);
  }
  // Algorithm 3, line 3: -M^-1 dtau, one thread per entry.
  PINION_INLINE void forward_gradient(T *by_q, T *by_qd) const {
    for (int x = thread; x < 2 * n * n; x += threads) {
      const bool by_rate = x >= n * n;
      const int entry = by_rate ? x - n * n : x, i = place(entry / n), j = place(entry % n);
      const Word *const dtau = memory + At::dtau + (by_rate ? n * n : 0) + j;
      T sum = T(0);
      for (int k = tree_begin(i); k < tree_end(i); ++k)
        sum = fnma(memory[At::minv + i * n + k], dtau[k * n], sum);
      (by_rate ? by_qd : by_q)[entry] = sum;
    }
  }
};

} // namespace pinion
