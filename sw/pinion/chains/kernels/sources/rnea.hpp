// Inverse dynamics: the recursive Newton-Euler algorithm (Luh, Walker and Paul 1980), 120 vector
// instructions a body that turns or shifts, 136 for a screw, and a sine and cosine where it turns.
#pragma once

#include "chain.hpp"

namespace pinion {
namespace {

template <class V> struct Rnea {
  Angle<V> *angle;   // of every body
  Wrench<V> *wrench; // of every body
  Motion<V> *motion; // of every body; written for those that are kept
  static constexpr size_t vectors = 2 + 6 + 9;

  // The memory of n bodies, which begins at p.
  PINION_INLINE Rnea(V *p, size_t n)
      : angle((Angle<V> *)p), wrench((Wrench<V> *)(p + 2 * n)), motion((Motion<V> *)(p + 8 * n)) {}
};

// The motion of a body from its parent's, which B belongs to.
template <class V, int KIND>
PINION_INLINE void outward(const Body<Scalar<V>> &b, Angle<V> t, V q, V qd, V qdd,
                           const Spin<V> &B, Motion<V> &m) {
  const Vec3<V> r = origin<V, KIND>(b, q);
  m.a = times_add(B, r, m.a);
  enter(b, t, m.w);
  enter(b, t, m.wd);
  enter(b, t, m.a);
  if constexpr (KIND != SHIFT) {
    const V rate = KIND == SCREW ? qd * dup<V>(b.turn) : qd;
    m.wd.x = fma(m.w.y, rate, m.wd.x);
    m.wd.y = fnma(m.w.x, rate, m.wd.y);
    m.wd.z = KIND == SCREW ? fma(qdd, dup<V>(b.turn), m.wd.z) : m.wd.z + qdd;
    m.w.z = m.w.z + rate;
  }
  if constexpr (KIND != TURN) {
    const V rate = KIND == SCREW ? qd * dup<V>(b.shift) : qd, twice = rate + rate;
    m.a.x = fma(m.w.y, twice, m.a.x);
    m.a.y = fnma(m.w.x, twice, m.a.y);
    m.a.z = KIND == SCREW ? fma(qdd, dup<V>(b.shift), m.a.z) : m.a.z + qdd;
  }
}

// What moves a body so: f = m a + B l, n = integral of p x (a + B p) dm
// = l x a + vee(B C - (B C)^T), C the second moments and l the lever.
template <class V>
PINION_INLINE Wrench<V> effort(const Body<Scalar<V>> &b, const Spin<V> &B, Vec3<V> a) {
  const Vec3<V> l = dup3<V>(b.lever);
  const V m = dup<V>(b.mass);
  const V xx = dup<V>(b.second[0]), xy = dup<V>(b.second[1]), xz = dup<V>(b.second[2]);
  const V yy = dup<V>(b.second[3]), yz = dup<V>(b.second[4]), zz = dup<V>(b.second[5]);
  Wrench<V> made;
  made.f = times_add<V>(B, l, {m * a.x, m * a.y, m * a.z});
  Vec3<V> n;
  n.x = fma(B.zx, xy, fma(B.zy, yy, B.zz * yz));
  n.x = fnma(B.yx, xz, fnma(B.yy, yz, fnma(B.yz, zz, n.x)));
  n.y = fma(B.xx, xz, fma(B.xy, yz, B.xz * zz));
  n.y = fnma(B.zx, xx, fnma(B.zy, xy, fnma(B.zz, xz, n.y)));
  n.z = fma(B.yx, xx, fma(B.yy, xy, B.yz * xz));
  n.z = fnma(B.xx, xy, fnma(B.xy, yy, fnma(B.xz, yz, n.z)));
  made.n = cross_add(l, a, n);
  return made;
}

// Efforts of a group of robots; null for qdd is no acceleration. `angle` has to be there. Where
// LESS, what `tau` has already is put minus them.
template <class V, bool LESS = false>
void efforts(const Chain<Scalar<V>> &chain, const Scalar<V> *q, const Scalar<V> *qd,
             const Scalar<V> *qdd, Scalar<V> *tau, const Rnea<V> &memory) {
  const int n = chain.bodies;
  Motion<V> m;
  Spin<V> B;
  for (int i = 0; i < n; ++i) {
    const Body<Scalar<V>> &b = chain.body[i];
    if (b.parent < 0) {
      m.w = m.wd = {V{}, V{}, V{}};
      m.a = dup3<V>(chain.gravity);
      m.a = {-m.a.x, -m.a.y, -m.a.z};
      B = spin(m.w, m.wd);
    } else if (b.parent != i - 1) {
      m = memory.motion[b.parent];
      B = spin(m.w, m.wd);
    }
    const V position = at<V>(q, i), rate = at<V>(qd, i), pull = qdd ? at<V>(qdd, i) : V{};
#define PINION_STEP(KIND) outward<V, KIND>(b, memory.angle[i], position, rate, pull, B, m)
    PINION_BY_KIND(b.kind, PINION_STEP)
#undef PINION_STEP
    B = spin(m.w, m.wd);
    if (b.kept) memory.motion[i] = m;
    memory.wrench[i] = effort(b, B, m.a);
  }
  Wrench<V> w = memory.wrench[n - 1];
  for (int i = n; i-- > 0;) {
    const Body<Scalar<V>> &b = chain.body[i];
    V effort, position = at<V>(q, i);
    Vec3<V> r;
#define PINION_STEP(KIND) effort = along<V, KIND>(b, w), r = origin<V, KIND>(b, position)
    PINION_BY_KIND(b.kind, PINION_STEP)
#undef PINION_STEP
    if (qdd && b.armature != 0) effort = fma(dup<V>(b.armature), at<V>(qdd, i), effort);
    Scalar<V> *const to = tau + PINION_BLOCK * i;
    store<V>(to, LESS ? load<V>(to) - effort : effort);
    if (i == 0) break;
    if (b.parent >= 0) {
      pass_on(b, memory.angle[i], r, w);
      if (b.parent == i - 1) {
        w = w + memory.wrench[i - 1];
        continue;
      }
      memory.wrench[b.parent] = memory.wrench[b.parent] + w;
    }
    w = memory.wrench[i - 1];
  }
}

// in : q, qd, qdd.
template <class V> struct Function_rnea {
  static size_t vectors(const Chain<Scalar<V>> &chain) { return Rnea<V>::vectors * chain.bodies; }
  static void compute(const Chain<Scalar<V>> &chain, const Scalar<V> *const *in, Scalar<V> *tau,
                      V *memory) {
    const Rnea<V> room(memory, chain.bodies);
    turns<V>(chain, in[0], room.angle);
    efforts<V>(chain, in[0], in[1], in[2], tau, room);
  }
};

} // namespace
} // namespace pinion
