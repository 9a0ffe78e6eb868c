// Forward dynamics: the articulated-body algorithm (Featherstone 2008, table 7.1, with the
// accelerations of chain.hpp), 310 to 340 vector instructions a body, 400 for a screw, a division,
// and a sine and cosine where it turns.
#pragma once

#include "chain.hpp"

namespace pinion {
namespace {

// A symmetric inertia [[A, H], [H^T, M]]; torque A wd + H a, force H^T wd + M a.
template <class V> struct Symmetric {
  V xx, xy, xz, yy, yz, zz;
};
template <class V> struct Articulated {
  Symmetric<V> A;
  V xx, xy, xz, yx, yy, yz, zx, zy, zz; // H
  Symmetric<V> M;
  Wrench<V> p; // bias
};

// A symmetric matrix from a frame that is turned about z by the angle. With FLAT its z is zero, and
// so is that of the result.
template <class V, bool FLAT = false>
PINION_INLINE void turn_z(V c, V s, Symmetric<V> &A) {
  const V xx = fms(c, A.xx, s * A.xy), xy = fms(c, A.xy, s * A.yy);
  const V yx = fma(s, A.xx, c * A.xy), yy = fma(s, A.xy, c * A.yy);
  A.xx = fms(c, xx, s * xy);
  A.xy = fma(s, xx, c * xy);
  A.yy = fma(s, yx, c * yy);
  if constexpr (!FLAT) outof(c, s, A.xz, A.yz);
}
// From one turned about x; with FLAT its z is zero, and that of the result is not.
template <class V, bool FLAT = false>
PINION_INLINE void turn_x(V c, V s, Symmetric<V> &A) {
  if constexpr (FLAT) {
    A.xz = s * A.xy;
    A.xy = c * A.xy;
    const V y = c * A.yy, z = s * A.yy;
    A.yy = c * y;
    A.yz = s * y;
    A.zz = s * z;
  } else {
    const V yy = fms(c, A.yy, s * A.yz), yz = fms(c, A.yz, s * A.zz);
    const V zy = fma(s, A.yy, c * A.yz), zz = fma(s, A.yz, c * A.zz);
    A.yy = fms(c, yy, s * yz);
    A.yz = fma(s, yy, c * yz);
    A.zz = fma(s, zy, c * zz);
    outof(c, s, A.xy, A.xz);
  }
}

// An articulated inertia and its bias from a body's frame to its parent's, whose origin is at -r.
// After a TURN the z row of A and H is zero, after a SHIFT the z column of H and M.
template <class V, int KIND>
PINION_INLINE void pass_on(const Body<Scalar<V>> &b, Angle<V> t, Vec3<V> r, Articulated<V> &I) {
  turn_z<V, KIND == TURN>(t.c, t.s, I.A);
  turn_z<V, KIND == SHIFT>(t.c, t.s, I.M);
  outof(t.c, t.s, I.xx, I.yx);
  outof(t.c, t.s, I.xy, I.yy);
  if constexpr (KIND != SHIFT) outof(t.c, t.s, I.xz, I.yz);
  outof(t.c, t.s, I.xx, I.xy);
  outof(t.c, t.s, I.yx, I.yy);
  if constexpr (KIND != TURN) outof(t.c, t.s, I.zx, I.zy);

  const V c = dup<V>(b.ca), s = dup<V>(b.sa);
  turn_x<V, KIND == TURN>(c, s, I.A);
  turn_x<V, KIND == SHIFT>(c, s, I.M);
  if constexpr (KIND == TURN) {
    I.zx = s * I.yx, I.yx = c * I.yx;
    I.zy = s * I.yy, I.yy = c * I.yy;
    I.zz = s * I.yz, I.yz = c * I.yz;
  } else {
    outof(c, s, I.yx, I.zx);
    outof(c, s, I.yy, I.zy);
    if constexpr (KIND != SHIFT) outof(c, s, I.yz, I.zz);
  }
  if constexpr (KIND == SHIFT) {
    I.xz = s * I.xy, I.xy = c * I.xy;
    I.yz = s * I.yy, I.yy = c * I.yy;
    I.zz = s * I.zy, I.zy = c * I.zy;
  } else {
    outof(c, s, I.xy, I.xz);
    outof(c, s, I.yy, I.yz);
    outof(c, s, I.zy, I.zz);
  }
  if (b.branch) {
    const V cg = dup<V>(b.cg), sg = dup<V>(b.sg);
    turn_z(cg, sg, I.A);
    turn_z(cg, sg, I.M);
    outof(cg, sg, I.xx, I.yx), outof(cg, sg, I.xy, I.yy), outof(cg, sg, I.xz, I.yz);
    outof(cg, sg, I.xx, I.xy), outof(cg, sg, I.yx, I.yy), outof(cg, sg, I.zx, I.zy);
  }
  // H_p = H + r^ M, and A_p = A - H r^ + r^ H_p^T; first what needs the old H.
  I.A.xx = fnma(I.xy, r.z, fma(I.xz, r.y, I.A.xx));
  I.A.xy = fnma(I.xz, r.x, fma(I.xx, r.z, I.A.xy));
  I.A.xz = fnma(I.xx, r.y, fma(I.xy, r.x, I.A.xz));
  I.A.yy = fnma(I.yz, r.x, fma(I.yx, r.z, I.A.yy));
  I.A.yz = fnma(I.yx, r.y, fma(I.yy, r.x, I.A.yz));
  I.A.zz = fnma(I.zx, r.y, fma(I.zy, r.x, I.A.zz));
  const Symmetric<V> &M = I.M;
  I.xx = fnma(r.z, M.xy, fma(r.y, M.xz, I.xx));
  I.xy = fnma(r.z, M.yy, fma(r.y, M.yz, I.xy));
  I.xz = fnma(r.z, M.yz, fma(r.y, M.zz, I.xz));
  I.yx = fnma(r.x, M.xz, fma(r.z, M.xx, I.yx));
  I.yy = fnma(r.x, M.yz, fma(r.z, M.xy, I.yy));
  I.yz = fnma(r.x, M.zz, fma(r.z, M.xz, I.yz));
  I.zx = fnma(r.y, M.xx, fma(r.x, M.xy, I.zx));
  I.zy = fnma(r.y, M.xy, fma(r.x, M.yy, I.zy));
  I.zz = fnma(r.y, M.xz, fma(r.x, M.yz, I.zz));
  I.A.xx = fnma(r.z, I.xy, fma(r.y, I.xz, I.A.xx));
  I.A.xy = fnma(r.z, I.yy, fma(r.y, I.yz, I.A.xy));
  I.A.xz = fnma(r.z, I.zy, fma(r.y, I.zz, I.A.xz));
  I.A.yy = fnma(r.x, I.yz, fma(r.z, I.yx, I.A.yy));
  I.A.yz = fnma(r.x, I.zz, fma(r.z, I.zx, I.A.yz));
  I.A.zz = fnma(r.y, I.zx, fma(r.x, I.zy, I.A.zz));
  pass_on(b, t, r, I.p);
}

// a -= s b b^T, with b times -s at hand.
template <class V> PINION_INLINE void downdate(Symmetric<V> &A, Vec3<V> minus, Vec3<V> b) {
  A.xx = fma(minus.x, b.x, A.xx);
  A.xy = fma(minus.x, b.y, A.xy);
  A.xz = fma(minus.x, b.z, A.xz);
  A.yy = fma(minus.y, b.y, A.yy);
  A.yz = fma(minus.y, b.z, A.yz);
  A.zz = fma(minus.z, b.z, A.zz);
}

// c + A b.
template <class V>
PINION_INLINE Vec3<V> times_add(const Symmetric<V> &A, Vec3<V> b, Vec3<V> c) {
  return {fma(A.xx, b.x, fma(A.xy, b.y, fma(A.xz, b.z, c.x))),
          fma(A.xy, b.x, fma(A.yy, b.y, fma(A.yz, b.z, c.y))),
          fma(A.xz, b.x, fma(A.yz, b.y, fma(A.zz, b.z, c.z)))};
}

// What a body keeps for the way out. The bias acceleration of its frame is (turned; shifted).
template <class V> struct Joint {
  Angle<V> angle;
  Vec3<V> turned, shifted;
  Wrench<V> bias;
  Vec3<V> Un, Uf; // U = I S
  V inverse, u;   // 1 / D, and tau - S^T p
};

// The body's bias acceleration and force, from its parent's angular velocity.
template <class V, int KIND>
PINION_INLINE void bias(const Body<Scalar<V>> &b, V q, V qd, const Spin<V> &B, Vec3<V> &w,
                        Joint<V> &j) {
  const V zero = V{};
  j.shifted = times_add<V>(B, origin<V, KIND>(b, q), {zero, zero, zero});
  enter(b, j.angle, j.shifted);
  enter(b, j.angle, w);
  j.turned = {zero, zero, zero};
  if constexpr (KIND != SHIFT) {
    const V rate = KIND == SCREW ? qd * dup<V>(b.turn) : qd;
    j.turned.x = w.y * rate;
    j.turned.y = -(w.x * rate);
    w.z = w.z + rate;
  }
  if constexpr (KIND != TURN) {
    const V rate = KIND == SCREW ? qd * dup<V>(b.shift) : qd, twice = rate + rate;
    j.shifted.x = fma(w.y, twice, j.shifted.x);
    j.shifted.y = fnma(w.x, twice, j.shifted.y);
  }
}

// n = w x J w, f = w x (w x lever).
template <class V>
PINION_INLINE Wrench<V> gyroscopic(const Body<Scalar<V>> &b, const Spin<V> &B, Vec3<V> w) {
  const V zero = V{};
  const Symmetric<V> J = {dup<V>(b.J[0]), dup<V>(b.J[1]), dup<V>(b.J[2]),
                          dup<V>(b.J[3]), dup<V>(b.J[4]), dup<V>(b.J[5])};
  const Vec3<V> none = {zero, zero, zero};
  return {cross_add(w, times_add(J, w, none), none), times_add(B, dup3<V>(b.lever), none)};
}

// Takes a joint out of an articulated inertia; keeps U, D and u.
template <class V, int KIND>
PINION_INLINE void eliminate(const Body<Scalar<V>> &b, V tau, Articulated<V> &I, Joint<V> &j) {
  Vec3<V> n, f;
  V D;
  if constexpr (KIND == TURN) {
    n = {I.A.xz, I.A.yz, I.A.zz}, f = {I.zx, I.zy, I.zz};
    D = n.z;
  } else if constexpr (KIND == SHIFT) {
    n = {I.xz, I.yz, I.zz}, f = {I.M.xz, I.M.yz, I.M.zz};
    D = f.z;
  } else {
    const V a = dup<V>(b.turn), l = dup<V>(b.shift);
    n = {fma(a, I.A.xz, l * I.xz), fma(a, I.A.yz, l * I.yz), fma(a, I.A.zz, l * I.zz)};
    f = {fma(a, I.zx, l * I.M.xz), fma(a, I.zy, l * I.M.yz), fma(a, I.zz, l * I.M.zz)};
    D = fma(a, n.z, fma(l, f.z, dup<V>(b.armature)));
  }
  j.Un = n, j.Uf = f;
  j.inverse = recip(D);
  j.u = tau - along<V, KIND>(b, I.p);
  const V minus = -j.inverse, g = j.u * j.inverse;
  const Vec3<V> sn = {n.x * minus, n.y * minus, n.z * minus};
  const Vec3<V> sf = {f.x * minus, f.y * minus, f.z * minus};
  // Compilers drop what the next step does not read: rows that are zero now.
  downdate(I.A, sn, n);
  downdate(I.M, sf, f);
  I.xx = fma(sn.x, f.x, I.xx), I.xy = fma(sn.x, f.y, I.xy), I.xz = fma(sn.x, f.z, I.xz);
  I.yx = fma(sn.y, f.x, I.yx), I.yy = fma(sn.y, f.y, I.yy), I.yz = fma(sn.y, f.z, I.yz);
  I.zx = fma(sn.z, f.x, I.zx), I.zy = fma(sn.z, f.y, I.zy), I.zz = fma(sn.z, f.z, I.zz);
  if constexpr (KIND == TURN) {
    I.A.xz = I.A.yz = I.A.zz = I.zx = I.zy = I.zz = V{};
  } else if constexpr (KIND == SHIFT) {
    I.M.xz = I.M.yz = I.M.zz = I.xz = I.yz = I.zz = V{};
  }
  // p += I_a c + U u / D; z of the angular c is zero.
  Wrench<V> &p = I.p;
  p.n = {fma(n.x, g, p.n.x), fma(n.y, g, p.n.y), fma(n.z, g, p.n.z)};
  p.f = {fma(f.x, g, p.f.x), fma(f.y, g, p.f.y), fma(f.z, g, p.f.z)};
  const Vec3<V> c = j.turned, l = j.shifted;
  if constexpr (KIND != SHIFT) {
    p.n.x = fma(I.A.xx, c.x, fma(I.A.xy, c.y, p.n.x));
    p.n.y = fma(I.A.xy, c.x, fma(I.A.yy, c.y, p.n.y));
    p.f.x = fma(I.xx, c.x, fma(I.yx, c.y, p.f.x));
    p.f.y = fma(I.xy, c.x, fma(I.yy, c.y, p.f.y));
    p.f.z = fma(I.xz, c.x, fma(I.yz, c.y, p.f.z));
    if constexpr (KIND == SCREW) p.n.z = fma(I.A.xz, c.x, fma(I.A.yz, c.y, p.n.z));
  }
  p.n.x = fma(I.xx, l.x, fma(I.xy, l.y, p.n.x));
  p.n.y = fma(I.yx, l.x, fma(I.yy, l.y, p.n.y));
  p.f.x = fma(I.M.xx, l.x, fma(I.M.xy, l.y, p.f.x));
  p.f.y = fma(I.M.xy, l.x, fma(I.M.yy, l.y, p.f.y));
  if constexpr (KIND != TURN) p.n.z = fma(I.zx, l.x, fma(I.zy, l.y, p.n.z));
  if constexpr (KIND != SHIFT) {
    p.n.x = fma(I.xz, l.z, p.n.x);
    p.n.y = fma(I.yz, l.z, p.n.y);
    p.f.x = fma(I.M.xz, l.z, p.f.x);
    p.f.y = fma(I.M.yz, l.z, p.f.y);
    p.f.z = fma(I.M.xz, l.x, fma(I.M.yz, l.y, fma(I.M.zz, l.z, p.f.z)));
  }
  if constexpr (KIND == SCREW) p.n.z = fma(I.zz, l.z, p.n.z);
}

// A body's own inertia, and what its children have added to it.
template <class V>
PINION_INLINE void add_own(const Body<Scalar<V>> &b, const Wrench<V> &bias, Articulated<V> &I) {
  const V m = dup<V>(b.mass);
  const Vec3<V> l = dup3<V>(b.lever);
  I.A = {I.A.xx + dup<V>(b.J[0]), I.A.xy + dup<V>(b.J[1]), I.A.xz + dup<V>(b.J[2]),
         I.A.yy + dup<V>(b.J[3]), I.A.yz + dup<V>(b.J[4]), I.A.zz + dup<V>(b.J[5])};
  I.xy = I.xy - l.z, I.xz = I.xz + l.y;
  I.yx = I.yx + l.z, I.yz = I.yz - l.x;
  I.zx = I.zx - l.y, I.zy = I.zy + l.x;
  I.M.xx = I.M.xx + m, I.M.yy = I.M.yy + m, I.M.zz = I.M.zz + m;
  I.p = I.p + bias;
}

template <class V> PINION_INLINE void add(const Articulated<V> &more, Articulated<V> &I) {
  constexpr int vectors = sizeof I / sizeof(V);
  const V *from = (const V *)&more;
  V *to = (V *)&I;
  for (int k = 0; k < vectors; ++k) to[k] = to[k] + from[k];
}

// The joint's acceleration, and that of the body from its parent's.
template <class V, int KIND>
PINION_INLINE V answer(const Body<Scalar<V>> &b, V q, const Joint<V> &j, Vec3<V> &wd, Vec3<V> &a) {
  a = cross_add(wd, origin<V, KIND>(b, q), a);
  enter(b, j.angle, wd);
  enter(b, j.angle, a);
  if constexpr (KIND != SHIFT) wd.x = wd.x + j.turned.x, wd.y = wd.y + j.turned.y;
  a = a + j.shifted;
  V rest = fnma(j.Un.x, wd.x, fnma(j.Un.y, wd.y, fnma(j.Un.z, wd.z, j.u)));
  rest = fnma(j.Uf.x, a.x, fnma(j.Uf.y, a.y, fnma(j.Uf.z, a.z, rest)));
  const V qdd = rest * j.inverse;
  if constexpr (KIND == TURN) wd.z = wd.z + qdd;
  if constexpr (KIND == SHIFT) a.z = a.z + qdd;
  if constexpr (KIND == SCREW) {
    wd.z = fma(dup<V>(b.turn), qdd, wd.z);
    a.z = fma(dup<V>(b.shift), qdd, a.z);
  }
  return qdd;
}

// in : q, qd, tau.
template <class V> struct Function_aba {
  typedef Scalar<V> T;
  static constexpr size_t PER_BODY =
      (sizeof(Angle<V>) + sizeof(Joint<V>) + 2 * sizeof(Vec3<V>) + sizeof(Articulated<V>)) /
      sizeof(V);
  static size_t vectors(const Chain<T> &chain) { return PER_BODY * chain.bodies; }

  static void compute(const Chain<T> &chain, const T *const *in, T *qdd, V *memory) {
    const int n = chain.bodies;
    const V zero = V{};
    Joint<V> *const joint = (Joint<V> *)memory;
    Angle<V> *const angle = (Angle<V> *)(joint + n);
    Vec3<V> *const kept = (Vec3<V> *)(angle + n); // two a body
    Articulated<V> *const gathered = (Articulated<V> *)(kept + 2 * n);
    turns<V>(chain, in[0], angle);

    Vec3<V> w = {zero, zero, zero};
    Spin<V> B = spin(w);
    for (int i = 0; i < n; ++i) {
      const Body<T> &b = chain.body[i];
      if (b.parent != i - 1) {
        w = b.parent < 0 ? Vec3<V>{zero, zero, zero} : kept[2 * b.parent];
        B = spin(w);
      }
      const V q = at<V>(in[0], i), qd = at<V>(in[1], i);
      joint[i].angle = angle[i];
#define PINION_STEP(KIND) bias<V, KIND>(b, q, qd, B, w, joint[i])
      PINION_BY_KIND(b.kind, PINION_STEP)
#undef PINION_STEP
      B = spin(w);
      joint[i].bias = gyroscopic(b, B, w);
      if (b.kept) {
        kept[2 * i] = w;
        memset(&gathered[i], 0, sizeof gathered[i]);
      }
    }

    Articulated<V> I;
    memset(&I, 0, sizeof I);
    for (int i = n; i-- > 0;) {
      const Body<T> &b = chain.body[i];
      if (b.kept) add(gathered[i], I);
      add_own(b, joint[i].bias, I);
      const V q = at<V>(in[0], i), tau = at<V>(in[2], i);
#define PINION_STEP(KIND)                                                                          \
  do {                                                                                             \
    eliminate<V, KIND>(b, tau, I, joint[i]);                                                       \
    if (b.parent >= 0) pass_on<V, KIND>(b, joint[i].angle, origin<V, KIND>(b, q), I);              \
  } while (0)
      PINION_BY_KIND(b.kind, PINION_STEP)
#undef PINION_STEP
      if (b.parent != i - 1) {
        if (b.parent >= 0) add(I, gathered[b.parent]);
        memset(&I, 0, sizeof I);
      }
    }

    Vec3<V> wd, a;
    for (int i = 0; i < n; ++i) {
      const Body<T> &b = chain.body[i];
      if (b.parent < 0) {
        wd = {zero, zero, zero};
        a = dup3<V>(chain.gravity);
        a = {-a.x, -a.y, -a.z};
      } else if (b.parent != i - 1) {
        wd = kept[2 * b.parent];
        a = kept[2 * b.parent + 1];
      }
      const V q = at<V>(in[0], i);
      V found;
#define PINION_STEP(KIND) found = answer<V, KIND>(b, q, joint[i], wd, a)
      PINION_BY_KIND(b.kind, PINION_STEP)
#undef PINION_STEP
      store<V>(qdd + PINION_BLOCK * i, found);
      if (b.kept) kept[2 * i] = wd, kept[2 * i + 1] = a;
    }
  }
};

} // namespace
} // namespace pinion
