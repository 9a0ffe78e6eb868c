// The serial algorithms by one thread or one warp a robot: what the scans are measured against, and
// the articulated inertias that no scan gives.
//
// Equations: recursive Newton-Euler and articulated bodies as in inverse.cuh and articulated.cuh,
// with velocities in the recursion (Featherstone 2008, tables 5.1 and 7.1).
//
// One thread a robot (..._by_threads): loops over links alone. Memory: a workspace (numbers, n,
// robots), which threads side by side read side by side: 6 numbers a link for inverse dynamics
// (its force), 14 for forward dynamics (v, then K, 1 / D and u).
//
// One warp a robot (..._by_warps): 32 links at a time have their transforms, and whatever else
// does not depend on neighbours, made by a lane each. Then the recursion goes from link to link,
// which every lane computes for itself from what the link's lane hands out by shuffles;
// articulated inertias have a column a lane. Memory: the same workspaces, (robots, numbers, n),
// and 72 words of shared memory a warp to transpose inertias.
#pragma once

#include "articulated.cuh"

namespace pinion {
namespace parallel {

constexpr int INVERSE_WORKSPACE = 6, FORWARD_WORKSPACE = 14;

// Numbers of a robot's links between the loops: number c of link i is first[(c n + i) step].
template <class T> struct Workspace {
  T *first;
  long long n, step;
  PINION_INLINE T &number(int c, int link) const { return first[(c * n + link) * step]; }
  PINION_INLINE Spatial<T> spatial(int c, int link) const {
    return {{number(c, link), number(c + 1, link), number(c + 2, link)},
            {number(c + 3, link), number(c + 4, link), number(c + 5, link)}};
  }
  PINION_INLINE void put(int c, int link, Spatial<T> a) const {
#pragma unroll
    for (int k = 0; k < 6; ++k) number(c + k, link) = component(a, k);
  }
};

// ---- One thread a robot ------------------------------------------------------------------------

template <class T>
PINION_INLINE void inverse_by_threads(long long robots, long long n, const T *numbers,
                                      long long chain_step, long long robot_step, long long step,
                                      T *workspace, const T *q, const T *qd, const T *qdd, T *tau) {
  const long long robot = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (robot >= robots) return;
  const Chain<T> chain(numbers, n, robot, chain_step);
  const Input<T> angle(q, robot, robot_step, step), rate(qd, robot, robot_step, step),
      more(qdd, robot, robot_step, step);
  const Output<T> effort(tau, robot, robot_step, step);
  const Workspace<T> kept{workspace + robot, n, robots};
  Spatial<T> v = no_spatial<T>(), a = chain.base();
#pragma unroll 1
  for (int i = 0; i < chain.n; ++i) {
    outwards(chain.placement(i, angle[i]), chain.joint(i), rate[i], more[i], v, a);
    kept.put(0, i, moving_force(chain.inertia(i), v, a));
  }
  Spatial<T> from = no_spatial<T>();
#pragma unroll 1
  for (int i = chain.n - 1; i >= 0; --i) {
    const Spatial<T> whole = kept.spatial(0, i) + from;
    effort.put(i, chain.joint(i).effort(whole));
    from = chain.placement(i, angle[i]).force(whole);
  }
}

// X^T J X for a symmetric J: X^T on the columns of J gives the rows of J X, and X^T on its columns.
template <class T> PINION_INLINE void to_parent(const Placement<T> &X, Spatial<T> (&column)[6]) {
  Spatial<T> half[6];
#pragma unroll
  for (int c = 0; c < 6; ++c) half[c] = X.force(column[c]);
#pragma unroll
  for (int c = 0; c < 6; ++c)
    column[c] = X.force({{component(half[0], c), component(half[1], c), component(half[2], c)},
                         {component(half[3], c), component(half[4], c), component(half[5], c)}});
}

template <class T>
PINION_INLINE void forward_by_threads(long long robots, long long n, const T *numbers,
                                      long long chain_step, long long robot_step, long long step,
                                      T *workspace, const T *q, const T *qd, const T *tau, T *qdd) {
  const long long robot = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (robot >= robots) return;
  const Chain<T> chain(numbers, n, robot, chain_step);
  const Input<T> angle(q, robot, robot_step, step), rate(qd, robot, robot_step, step),
      effort(tau, robot, robot_step, step);
  const Output<T> result(qdd, robot, robot_step, step);
  const Workspace<T> kept{workspace + robot, n, robots};
  Spatial<T> v = no_spatial<T>();
#pragma unroll 1
  for (int i = 0; i < chain.n; ++i) {
    v = chain.placement(i, angle[i]).motion(v) + chain.joint(i).times(rate[i]);
    kept.put(0, i, v);
  }
  Spatial<T> column[6], p = no_spatial<T>();
#pragma unroll
  for (int c = 0; c < 6; ++c) column[c] = no_spatial<T>();
#pragma unroll 1
  for (int i = chain.n - 1; i >= 0; --i) {
    const Rigid<T> I = chain.inertia(i);
    const Joint<T> S = chain.joint(i);
    v = kept.spatial(0, i);
    Spatial<T> U = no_spatial<T>();
#pragma unroll
    for (int c = 0; c < 6; ++c) {
      column[c] = column[c] + I.times(unit_spatial<T>(c));
      ((T *)&U)[c] = S.effort(column[c]);
    }
    const T inverse = T(1) / S.effort(U);
    const Spatial<T> gain = plus_scaled(inverse, U, no_spatial<T>());
    p = p + cross_force(v, I.times(v));
    const T u = effort[i] - S.effort(p);
    const Spatial<T> c = cross_motion(v, S.times(rate[i]));
    p = plus_scaled(u, gain, p);
#pragma unroll
    for (int k = 0; k < 6; ++k) {
      column[k] = plus_scaled(-component(U, k), gain, column[k]);
      p = plus_scaled(component(c, k), column[k], p);
    }
    kept.put(6, i, gain);
    kept.number(12, i) = inverse;
    kept.number(13, i) = u;
    const Placement<T> X = chain.placement(i, angle[i]);
    p = X.force(p);
    to_parent(X, column);
  }
  Spatial<T> a = chain.base();
#pragma unroll 1
  for (int i = 0; i < chain.n; ++i) {
    const Joint<T> S = chain.joint(i);
    a = chain.placement(i, angle[i]).motion(a) +
        cross_motion(kept.spatial(0, i), S.times(rate[i]));
    const T x = fms(kept.number(13, i), kept.number(12, i), dot(kept.spatial(6, i), a));
    a = a + S.times(x);
    result.put(i, x);
  }
}

// ---- One warp a robot --------------------------------------------------------------------------

// A struct of numbers from a lane, for all lanes.
template <class T, class X> PINION_INLINE X handed_out(X own, int lane) {
#pragma unroll
  for (int k = 0; k < (int)(sizeof own / sizeof(T)); ++k)
    ((T *)&own)[k] = __shfl_sync(ALL_LANES, ((T *)&own)[k], lane);
  return own;
}

// The links of a chunk that this lane and others have; lanes beyond the tip have none.
struct Chunk {
  int first, count, own;
  bool some;
  PINION_INLINE Chunk(int first, int n)
      : first(first), count(n - first < WARP ? n - first : WARP),
        own(first + (int)threadIdx.x % WARP), some(own < n) {}
};

template <class T>
PINION_INLINE void inverse_by_warps(long long robots, long long n, const T *numbers,
                                    long long chain_step, long long robot_step, long long step,
                                    T *workspace, const T *q, const T *qd, const T *qdd, T *tau) {
  const Warp scope(nullptr, nullptr, n);
  const long long robot = scope.robot();
  if (robot >= robots) return; // a whole warp
  const Chain<T> chain(numbers, n, robot, chain_step);
  const Input<T> angle(q, robot, robot_step, step), rate(qd, robot, robot_step, step),
      more(qdd, robot, robot_step, step);
  const Output<T> effort(tau, robot, robot_step, step);
  const Workspace<T> kept{workspace + robot * INVERSE_WORKSPACE * n, n, 1};
  const int lane = scope.thread();
  Spatial<T> v = no_spatial<T>(), a = chain.base();
#pragma unroll 1
  for (int first = 0; first < chain.n; first += WARP) {
    const Chunk at(first, chain.n);
    typename Moving<T>::Element own = Moving<T>::none();
    if (at.some)
      own = Moving<T>::of(chain.placement(at.own, angle[at.own]), chain.joint(at.own),
                          rate[at.own], more[at.own]);
    Spatial<T> own_v = v, own_a = a;
#pragma unroll 1
    for (int k = 0; k < at.count; ++k) {
      const typename Moving<T>::Element link = handed_out<T>(own, k);
      v = link.X.motion(v) + link.v;
      a = link.X.motion(a) + link.a + cross_motion(v, link.v);
      if (lane == k) own_v = v, own_a = a;
    }
    if (at.some) kept.put(0, at.own, moving_force(chain.inertia(at.own), own_v, own_a));
  }
  Spatial<T> from = no_spatial<T>();
#pragma unroll 1
  for (int first = (chain.n - 1) / WARP * WARP; first >= 0; first -= WARP) {
    const Chunk at(first, chain.n);
    typename Carried<T>::Element own = Carried<T>::none();
    if (at.some) own = {chain.placement(at.own, angle[at.own]), kept.spatial(0, at.own)};
#pragma unroll 1
    for (int k = at.count - 1; k >= 0; --k) {
      const typename Carried<T>::Element link = handed_out<T>(own, k);
      const Spatial<T> whole = link.f + from;
      if (lane == k) own.f = whole;
      from = link.X.force(whole);
    }
    if (at.some) effort.put(at.own, chain.joint(at.own).effort(own.f));
  }
}

// What a link hands out for its articulated inertia, and for its bias force.
template <class T> struct Body {
  Placement<T> X;
  Rigid<T> I;
  Joint<T> S;
};
template <class T> struct Load {
  Spatial<T> f, c; // v x* I v and v x S qd
  T tau;
};

// X^T J X for this lane's column of J; lanes 0 to 5 have one each and the others copies. `shared`:
// 36 words of the warp, other ones than at the call before, so that one barrier is enough.
template <class T>
PINION_INLINE Spatial<T> column_to_parent(T *shared, const Placement<T> &X, Spatial<T> column) {
  const int lane = (int)threadIdx.x % WARP, own = lane % 6;
  const Spatial<T> half = X.force(column);
  if (lane < 6) {
#pragma unroll
    for (int k = 0; k < 6; ++k) shared[6 * own + k] = component(half, k);
  }
  __syncwarp();
  return X.force({{shared[own], shared[6 + own], shared[12 + own]},
                  {shared[18 + own], shared[24 + own], shared[30 + own]}});
}

// Numbers x of lanes 0 to 5 as the components of a vector, for all lanes.
template <class T> PINION_INLINE Spatial<T> gathered(T x) {
  Spatial<T> made;
#pragma unroll
  for (int k = 0; k < 6; ++k) ((T *)&made)[k] = __shfl_sync(ALL_LANES, x, k);
  return made;
}

// From the tip to the base: K, 1 / D (equation 7) and, with FORCES, u of all joints, from number
// `to` of the workspace on. With FORCES the workspace has v from 0 on.
template <bool FORCES, class T>
PINION_INLINE void articulated_by_warp(T *shared, const Chain<T> &chain,
                                       const Input<T> &angle, const Input<T> &rate,
                                       const Input<T> &effort, const Workspace<T> &kept, int to) {
  const int lane = (int)threadIdx.x % WARP;
  Spatial<T> column = no_spatial<T>(), p = no_spatial<T>();
#pragma unroll 1
  for (int first = (chain.n - 1) / WARP * WARP; first >= 0; first -= WARP) {
    const Chunk at(first, chain.n);
    Body<T> own = {no_move<T>(), {}, {}};
    Load<T> load = {};
    if (at.some) {
      own = {chain.placement(at.own, angle[at.own]), chain.inertia(at.own), chain.joint(at.own)};
      if constexpr (FORCES) {
        const Spatial<T> v = kept.spatial(0, at.own);
        load = {cross_force(v, own.I.times(v)), cross_motion(v, own.S.times(rate[at.own])),
                effort[at.own]};
      }
    }
    Spatial<T> own_gain = no_spatial<T>();
    T own_inverse = T(0), own_u = T(0);
#pragma unroll 1
    for (int k = at.count - 1; k >= 0; --k) {
      const Body<T> link = handed_out<T>(own, k);
      column = column + link.I.times(unit_spatial<T>(lane % 6));
      const T own_U = link.S.effort(column);
      const Spatial<T> U = gathered(own_U);
      const T inverse = T(1) / link.S.effort(U);
      const Spatial<T> gain = plus_scaled(inverse, U, no_spatial<T>());
      column = plus_scaled(-own_U, gain, column);
      if (lane == k) own_gain = gain, own_inverse = inverse;
      if constexpr (FORCES) {
        const Load<T> more = handed_out<T>(load, k);
        p = p + more.f;
        const T u = more.tau - link.S.effort(p);
        if (lane == k) own_u = u;
        p = link.X.force(plus_scaled(u, gain, p + gathered(dot(column, more.c))));
      }
      column = column_to_parent(shared + k % 2 * 36, link.X, column);
    }
    if (!at.some) continue;
    kept.put(to, at.own, own_gain);
    kept.number(to + 6, at.own) = own_inverse;
    if constexpr (FORCES) kept.number(to + 7, at.own) = own_u;
  }
}

// The factors of all joints, (robots, 7, n), for abia_kernel. shared: 72 words a warp.
template <class T>
PINION_INLINE void factors_by_warps(T *shared, long long robots, long long n, const T *numbers,
                                    long long chain_step, long long robot_step, long long step,
                                    const T *q, T *factors) {
  const Warp scope(nullptr, nullptr, n);
  const long long robot = scope.robot();
  if (robot >= robots) return; // a whole warp
  const Chain<T> chain(numbers, n, robot, chain_step);
  const Input<T> angle(q, robot, robot_step, step);
  articulated_by_warp<false>(shared + threadIdx.x / WARP * 72, chain, angle,
                             angle, angle, Workspace<T>{factors + robot * 7 * n, n, 1}, 0);
}

template <class T>
PINION_INLINE void forward_by_warps(T *shared, long long robots, long long n, const T *numbers,
                                    long long chain_step, long long robot_step, long long step,
                                    T *workspace, const T *q, const T *qd, const T *tau, T *qdd) {
  const Warp scope(nullptr, nullptr, n);
  const long long robot = scope.robot();
  if (robot >= robots) return; // a whole warp
  const Chain<T> chain(numbers, n, robot, chain_step);
  const Input<T> angle(q, robot, robot_step, step), rate(qd, robot, robot_step, step),
      effort(tau, robot, robot_step, step);
  const Output<T> result(qdd, robot, robot_step, step);
  const Workspace<T> kept{workspace + robot * FORWARD_WORKSPACE * n, n, 1};
  const int lane = scope.thread();
  struct Moved {
    Placement<T> X;
    Spatial<T> rate;
  };
  Spatial<T> v = no_spatial<T>();
#pragma unroll 1
  for (int first = 0; first < chain.n; first += WARP) {
    const Chunk at(first, chain.n);
    Moved own = {no_move<T>(), no_spatial<T>()};
    if (at.some)
      own = {chain.placement(at.own, angle[at.own]), chain.joint(at.own).times(rate[at.own])};
    Spatial<T> own_v = v;
#pragma unroll 1
    for (int k = 0; k < at.count; ++k) {
      const Moved link = handed_out<T>(own, k);
      v = link.X.motion(v) + link.rate;
      if (lane == k) own_v = v;
    }
    if (at.some) kept.put(0, at.own, own_v);
  }
  articulated_by_warp<true>(shared + threadIdx.x / WARP * 72, chain, angle,
                            rate, effort, kept, 6);
  struct Answer {
    Placement<T> X;
    Joint<T> S;
    Spatial<T> gain, c;
    T inverse, u;
  };
  Spatial<T> a = chain.base();
#pragma unroll 1
  for (int first = 0; first < chain.n; first += WARP) {
    const Chunk at(first, chain.n);
    Answer own = {no_move<T>(), {}, {}, {}, T(0), T(0)};
    if (at.some) {
      const Joint<T> S = chain.joint(at.own);
      own = {chain.placement(at.own, angle[at.own]), S, kept.spatial(6, at.own),
             cross_motion(kept.spatial(0, at.own), S.times(rate[at.own])),
             kept.number(12, at.own), kept.number(13, at.own)};
    }
    T own_result = T(0);
#pragma unroll 1
    for (int k = 0; k < at.count; ++k) {
      const Answer link = handed_out<T>(own, k);
      a = link.X.motion(a) + link.c;
      const T x = fms(link.u, link.inverse, dot(link.gain, a));
      a = a + link.S.times(x);
      if (lane == k) own_result = x;
    }
    if (at.some) result.put(at.own, own_result);
  }
}

} // namespace parallel
} // namespace pinion
