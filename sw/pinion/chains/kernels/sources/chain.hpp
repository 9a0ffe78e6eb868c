// A tree of bodies with joints of one velocity, as data, and the steps from a body to the next.
//
// Frames are canonical (chains/kernels/frames.py): a joint turns about z, shifts along z, or does
// both, and the turn about x alone stands between a body's z and the next one's. Accelerations are
// those of the frames' origins and not the spatial ones (Luh, Walker and Paul 1980), so no linear
// velocity is needed; they are as linear in the joints' accelerations, with the same inertias. The
// acceleration of a body's point at r is a + B r, B = wd^ + w^ w^.
//
// A V holds as many robots as fit into a vector. Arrays of a block have PINION_BLOCK robots an
// element.
#pragma once

#include "kernel.hpp"

namespace pinion {
namespace {

// What a joint does: turns by q, shifts by q, or turns by turn q and shifts by shift q.
enum { TURN = 0, SHIFT = 1, SCREW = 2 };

// A body with its joint. frames.py has the same members in the same order.
template <class T> struct Body {
  int32_t parent; // -1: the base
  int32_t kind;
  int32_t kept;   // not 0: another body than the next one has this for its parent
  int32_t branch; // not 0: the frame is reached by a turn about the parent's z before all others
  T cg, sg;       // of that turn
  T ca, sa;       // of the turn about x
  T c0, s0;       // of the joint's turn at q = 0
  T r[3];         // the frame's origin in the parent's frame at q = 0
  T axis[3];      // z of the frame in the parent's
  T turn, shift;
  T mass;
  T armature;  // not 0: the kind is SCREW, whose elimination leaves no zeros
  T lever[3];  // mass times centre of mass
  T J[6];      // rotational inertia about the origin: xx, xy, xz, yy, yz, zz
  T second[6]; // second moments of the mass, tr(J)/2 - J
};

// What forces the joint transmits, and what they do to the bodies on its two sides (cfa.hpp). X is
// the motion transform to the frame but for the joint's own turn and shift.
template <class T> struct Compliance {
  T wa, wl;      // the third constraint: of the torque about z and the force along z
  T scale;       // 1 / (S^T S)
  T inverse[21]; // of the inertia: the lower triangle, row by row
  T own[15];     // W^T I^-1 W, likewise
  T before[21];  // X I_p^-1 X^T of the parent p, likewise; 0 for the first body
  T cross[30];   // W_p^T I_p^-1 X^T, 5 x 6, row by row; 0 for the first body
};

template <class T> struct Chain {
  int32_t bodies;
  int32_t refine; // steps of refinement
  const Body<T> *body;
  const Compliance<T> *compliance; // null where no function needs it
  const T *gravity;                // 3, in the base's frame
};

template <class V> struct Vec3 {
  V x, y, z;
};
template <class V> struct Wrench {
  Vec3<V> n, f;
};
template <class V> struct Motion {
  Vec3<V> w, wd, a; // angular velocity and acceleration, acceleration of the origin
};
template <class V> struct Angle {
  V c, s;
};

template <class V> PINION_INLINE V dup(Scalar<V> x) { return splat<V>(x); }
template <class V> PINION_INLINE V at(const Scalar<V> *array, int element) {
  return load<V>(array + PINION_BLOCK * element);
}

// The elements of [[c, s], [-s, c]] (x, y): coordinates in a frame that is turned by the angle.
template <class V> PINION_INLINE void into(V c, V s, V &x, V &y) {
  const V t = fma(c, x, s * y);
  y = fms(c, y, s * x);
  x = t;
}
// And back.
template <class V> PINION_INLINE void outof(V c, V s, V &x, V &y) {
  const V t = fms(c, x, s * y);
  y = fma(c, y, s * x);
  x = t;
}

// A vector's coordinates, from the parent's frame to the body's.
template <class V> PINION_INLINE void enter(const Body<Scalar<V>> &b, Angle<V> t, Vec3<V> &v) {
  if (b.branch) into<V>(dup<V>(b.cg), dup<V>(b.sg), v.x, v.y);
  into<V>(dup<V>(b.ca), dup<V>(b.sa), v.y, v.z);
  into(t.c, t.s, v.x, v.y);
}
// And back.
template <class V> PINION_INLINE void leave(const Body<Scalar<V>> &b, Angle<V> t, Vec3<V> &v) {
  outof(t.c, t.s, v.x, v.y);
  outof<V>(dup<V>(b.ca), dup<V>(b.sa), v.y, v.z);
  if (b.branch) outof<V>(dup<V>(b.cg), dup<V>(b.sg), v.x, v.y);
}

// c + a x b and c - a x b.
template <class V> PINION_INLINE Vec3<V> cross_add(Vec3<V> a, Vec3<V> b, Vec3<V> c) {
  return {fma(a.y, b.z, fnma(a.z, b.y, c.x)), fma(a.z, b.x, fnma(a.x, b.z, c.y)),
          fma(a.x, b.y, fnma(a.y, b.x, c.z))};
}
template <class V> PINION_INLINE Vec3<V> operator+(Vec3<V> a, Vec3<V> b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z};
}
template <class V> PINION_INLINE Wrench<V> operator+(Wrench<V> a, Wrench<V> b) {
  return {a.n + b.n, a.f + b.f};
}
template <class V> PINION_INLINE Vec3<V> dup3(const Scalar<V> *p) {
  return {dup<V>(p[0]), dup<V>(p[1]), dup<V>(p[2])};
}

// Where the body's origin is in the parent's frame.
template <class V, int KIND> PINION_INLINE Vec3<V> origin(const Body<Scalar<V>> &b, V q) {
  Vec3<V> r = dup3<V>(b.r);
  if constexpr (KIND == TURN) return r;
  const V d = KIND == SCREW ? q * dup<V>(b.shift) : q;
  return {fma(dup<V>(b.axis[0]), d, r.x), fma(dup<V>(b.axis[1]), d, r.y),
          fma(dup<V>(b.axis[2]), d, r.z)};
}

// B = wd^ + w^ w^.
template <class V> struct Spin {
  V xx, xy, xz, yx, yy, yz, zx, zy, zz;
};
template <class V> PINION_INLINE Spin<V> spin(Vec3<V> w, Vec3<V> wd) {
  const V x = w.x * w.x, y = w.y * w.y;
  const V xy = w.x * w.y, xz = w.x * w.z, yz = w.y * w.z;
  return {fnms(w.z, w.z, y), xy - wd.z, xz + wd.y, xy + wd.z, fnms(w.z, w.z, x),
          yz - wd.x,         xz - wd.y, yz + wd.x, -(x + y)};
}
// c + B r.
template <class V> PINION_INLINE Vec3<V> times_add(const Spin<V> &B, Vec3<V> r, Vec3<V> c) {
  return {fma(B.xx, r.x, fma(B.xy, r.y, fma(B.xz, r.z, c.x))),
          fma(B.yx, r.x, fma(B.yy, r.y, fma(B.yz, r.z, c.y))),
          fma(B.zx, r.x, fma(B.zy, r.y, fma(B.zz, r.z, c.z)))};
}
// w^ w^ alone is symmetric.
template <class V> PINION_INLINE Spin<V> spin(Vec3<V> w) {
  const V x = w.x * w.x, y = w.y * w.y;
  const V xy = w.x * w.y, xz = w.x * w.z, yz = w.y * w.z;
  return {fnms(w.z, w.z, y), xy, xz, xy, fnms(w.z, w.z, x), yz, xz, yz, -(x + y)};
}

// Runs step<KIND>() for the kind of a body; chains repeat, so the branch is foreseen.
#define PINION_BY_KIND(kind, step)                                                                 \
  switch (kind) {                                                                                  \
  case TURN: step(TURN); break;                                                                    \
  case SHIFT: step(SHIFT); break;                                                                  \
  default: step(SCREW);                                                                            \
  }

// Sine and cosine of every joint's turn, the constant part included: constants of the polynomials
// stay in registers in a loop of their own.
template <class V> void turns(const Chain<Scalar<V>> &chain, const Scalar<V> *q, Angle<V> *angle) {
  for (int i = 0; i < chain.bodies; ++i) {
    const Body<Scalar<V>> &b = chain.body[i];
    Angle<V> t = {dup<V>(b.c0), dup<V>(b.s0)};
    if (b.kind != SHIFT) {
      V s, c;
      sincos<V>(b.kind == TURN ? at<V>(q, i) : at<V>(q, i) * dup<V>(b.turn), s, c);
      t = {fms(c, t.c, s * t.s), fma(s, t.c, c * t.s)};
    }
    angle[i] = t;
  }
}

// The wrench of a body's joint on the parent, at the parent's origin.
template <class V>
PINION_INLINE void pass_on(const Body<Scalar<V>> &b, Angle<V> t, Vec3<V> r, Wrench<V> &w) {
  outof(t.c, t.s, w.f.x, w.f.y);
  outof(t.c, t.s, w.n.x, w.n.y);
  outof<V>(dup<V>(b.ca), dup<V>(b.sa), w.f.y, w.f.z);
  outof<V>(dup<V>(b.ca), dup<V>(b.sa), w.n.y, w.n.z);
  if (b.branch) {
    outof<V>(dup<V>(b.cg), dup<V>(b.sg), w.f.x, w.f.y);
    outof<V>(dup<V>(b.cg), dup<V>(b.sg), w.n.x, w.n.y);
  }
  w.n = cross_add(r, w.f, w.n);
}

// S^T of a wrench.
template <class V, int KIND> PINION_INLINE V along(const Body<Scalar<V>> &b, const Wrench<V> &w) {
  if constexpr (KIND == TURN) return w.n.z;
  if constexpr (KIND == SHIFT) return w.f.z;
  return fma(dup<V>(b.turn), w.n.z, dup<V>(b.shift) * w.f.z);
}

} // namespace
} // namespace pinion
