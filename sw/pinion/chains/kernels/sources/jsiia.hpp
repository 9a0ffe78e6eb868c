// Forward dynamics by the inertia matrix of joint space: M qdd = tau - ID(q, qd, 0), M factorised
// as L D L^T (Cholesky's factors without roots).
//
// Column j of M is inverse dynamics of a chain at rest without gravity whose joint j alone
// accelerates. All bodies behind joint j then move as one, so their wrenches are those of one rigid
// body, and the n problems of the batch share these sums (Walker and Orin 1982). All other zeros of
// the columns are left out too. 60 vector instructions a body, 22 a pair of a body and one behind
// it, n^3/6 and n^2 for the factors and the solution.
#pragma once

#include "aba.hpp"
#include "rnea.hpp"

namespace pinion {
namespace {

// A rigid body: mass, lever, rotational inertia about the origin.
template <class V> struct Rigid {
  V m;
  Vec3<V> l;
  Symmetric<V> J;
};

template <class V> PINION_INLINE void add_own(const Body<Scalar<V>> &b, Rigid<V> &I) {
  I.m = I.m + dup<V>(b.mass);
  I.l = I.l + dup3<V>(b.lever);
  I.J = {I.J.xx + dup<V>(b.J[0]), I.J.xy + dup<V>(b.J[1]), I.J.xz + dup<V>(b.J[2]),
         I.J.yy + dup<V>(b.J[3]), I.J.yz + dup<V>(b.J[4]), I.J.zz + dup<V>(b.J[5])};
}

// To the parent's frame: J_p = J - l^ r^ - r^ l_p^, l_p = l + m r.
template <class V>
PINION_INLINE void pass_on(const Body<Scalar<V>> &b, Angle<V> t, Vec3<V> r, Rigid<V> &I) {
  leave(b, t, I.l);
  turn_z(t.c, t.s, I.J);
  turn_x<V>(dup<V>(b.ca), dup<V>(b.sa), I.J);
  if (b.branch) turn_z<V>(dup<V>(b.cg), dup<V>(b.sg), I.J);
  const Vec3<V> l = I.l;
  const Vec3<V> p = {fma(I.m, r.x, l.x), fma(I.m, r.y, l.y), fma(I.m, r.z, l.z)};
  const V x = fma(l.x, r.x, r.x * p.x), y = fma(l.y, r.y, r.y * p.y), z = fma(l.z, r.z, r.z * p.z);
  I.J.xx = I.J.xx + (y + z);
  I.J.yy = I.J.yy + (x + z);
  I.J.zz = I.J.zz + (x + y);
  I.J.xy = fnma(l.y, r.x, fnma(r.y, p.x, I.J.xy));
  I.J.xz = fnma(l.z, r.x, fnma(r.z, p.x, I.J.xz));
  I.J.yz = fnma(l.z, r.y, fnma(r.z, p.y, I.J.yz));
  I.l = p;
}

// The wrench that accelerates a joint by 1 with all that it carries.
template <class V, int KIND>
PINION_INLINE Wrench<V> pushed(const Body<Scalar<V>> &b, const Rigid<V> &I) {
  const V zero = V{};
  if constexpr (KIND == TURN) return {{I.J.xz, I.J.yz, I.J.zz}, {-I.l.y, I.l.x, zero}};
  if constexpr (KIND == SHIFT) return {{I.l.y, -I.l.x, zero}, {zero, zero, I.m}};
  const V a = dup<V>(b.turn), s = dup<V>(b.shift);
  return {{fma(a, I.J.xz, s * I.l.y), fms(a, I.J.yz, s * I.l.x), a * I.J.zz},
          {-(a * I.l.y), a * I.l.x, s * I.m}};
}

// in : q, qd, tau.
template <class V> struct Function_jsiia {
  typedef Scalar<V> T;
  static constexpr size_t RIGID = sizeof(Rigid<V>) / sizeof(V);

  static size_t vectors(const Chain<T> &chain) {
    const size_t n = chain.bodies;
    return n * (Rnea<V>::vectors + RIGID + 4 + 1) + n * (n + 1) / 2;
  }

  static void compute(const Chain<T> &chain, const T *const *in, T *qdd, V *memory) {
    const int n = chain.bodies;
    const Rnea<V> room(memory, n);
    Rigid<V> *const gathered = (Rigid<V> *)(memory + Rnea<V>::vectors * n);
    Vec3<V> *const place = (Vec3<V> *)(gathered + n);
    V *const x = (V *)(place + n), *const inverse = x + n, *const M = inverse + n;
    turns<V>(chain, in[0], room.angle);
    for (int i = 0; i < n; ++i) store<V>(qdd + PINION_BLOCK * i, at<V>(in[2], i));
    efforts<V, true>(chain, in[0], in[1], nullptr, qdd, room);
    for (int i = 0; i < n; ++i) x[i] = at<V>(qdd, i);

    // M, the lower triangle row by row: row j holds what joint j's acceleration needs of the
    // joints before it.
    memset(M, 0, sizeof(V) * (size_t)n * (n + 1) / 2);
    for (int i = 0; i < n; ++i) {
      const Body<T> &b = chain.body[i];
      if (b.kept) memset(&gathered[i], 0, sizeof gathered[i]);
      const V q = at<V>(in[0], i);
#define PINION_STEP(KIND) place[i] = origin<V, KIND>(b, q)
      PINION_BY_KIND(b.kind, PINION_STEP)
#undef PINION_STEP
    }
    Rigid<V> I;
    memset(&I, 0, sizeof I);
    for (int j = n; j-- > 0;) {
      const Body<T> &b = chain.body[j];
      if (b.kept) {
        const Rigid<V> &more = gathered[j];
        I.m = I.m + more.m;
        I.l = I.l + more.l;
        I.J = {I.J.xx + more.J.xx, I.J.xy + more.J.xy, I.J.xz + more.J.xz,
               I.J.yy + more.J.yy, I.J.yz + more.J.yz, I.J.zz + more.J.zz};
      }
      add_own(b, I);
      V *const row = M + (size_t)j * (j + 1) / 2;
      Wrench<V> w;
#define PINION_STEP(KIND) w = pushed<V, KIND>(b, I), row[j] = along<V, KIND>(b, w)
      PINION_BY_KIND(b.kind, PINION_STEP)
#undef PINION_STEP
      row[j] = row[j] + dup<V>(b.armature);
      for (int i = j; chain.body[i].parent >= 0;) {
        pass_on(chain.body[i], room.angle[i], place[i], w);
        i = chain.body[i].parent;
#define PINION_STEP(KIND) row[i] = along<V, KIND>(chain.body[i], w)
        PINION_BY_KIND(chain.body[i].kind, PINION_STEP)
#undef PINION_STEP
      }
      if (b.parent >= 0) pass_on(b, room.angle[j], place[j], I);
      if (b.parent != j - 1) {
        if (b.parent >= 0) {
          Rigid<V> &to = gathered[b.parent];
          to.m = to.m + I.m;
          to.l = to.l + I.l;
          to.J = {to.J.xx + I.J.xx, to.J.xy + I.J.xy, to.J.xz + I.J.xz,
                  to.J.yy + I.J.yy, to.J.yz + I.J.yz, to.J.zz + I.J.zz};
        }
        memset(&I, 0, sizeof I);
      }
    }
    factorise(n, M, inverse);
    solve(n, M, inverse, x);
    for (int i = 0; i < n; ++i) store<V>(qdd + PINION_BLOCK * i, x[i]);
  }

  // L D L^T in the place of M, row by row; 1/D to `inverse`.
  static void factorise(int n, V *M, V *inverse) {
    V *row = M;
    for (int i = 0; i < n; row += ++i) {
      // Row i of L D, from the rows before; all is read in the order of memory.
      const V *L = M;
      for (int j = 0; j < i; L += ++j) row[j] = row[j] - dot(L, row, j);
      V d = row[i];
      for (int j = 0; j < i; ++j) {
        const V l = row[j] * inverse[j];
        d = fnma(row[j], l, d);
        row[j] = l;
      }
      row[i] = d;
      inverse[i] = recip(d);
    }
  }

  static PINION_INLINE V dot(const V *a, const V *b, int n) {
    V even = V{}, odd = V{};
    int k = 0;
    for (; k + 1 < n; k += 2) {
      even = fma(a[k], b[k], even);
      odd = fma(a[k + 1], b[k + 1], odd);
    }
    if (k < n) even = fma(a[k], b[k], even);
    return even + odd;
  }

  static void solve(int n, const V *L, const V *inverse, V *x) {
    const V *row = L;
    for (int i = 0; i < n; row += ++i) {
      V sum = x[i];
      for (int k = 0; k < i; ++k) sum = fnma(row[k], x[k], sum);
      x[i] = sum;
    }
    for (int i = 0; i < n; ++i) x[i] = x[i] * inverse[i];
    for (int i = n; i-- > 1;) {
      row = L + (size_t)i * (i + 1) / 2;
      for (int k = 0; k < i; ++k) x[k] = fnma(row[k], x[i], x[k]);
    }
  }
};

} // namespace
} // namespace pinion
