// Forward dynamics by constraint forces (Fijany, Sharf and D'Eleuterio 1995; its correction for
// joints with H^T H other than 1 is in the scale of the efforts), for chains without side branches.
//
// A joint passes on F = W f + S tau / (S^T S), the five columns of W those of no motion, W^T S = 0.
// That bodies which F moves by I^-1 stay together, W^T (Vdot_i - X_i Vdot_p - c_i) = 0, is a block
// tridiagonal system of n blocks of 5 x 5,
//     D_i = W_i^T (I_i^-1 + X_i I_p^-1 X_i^T) W_i,    U_p = -W_p^T I_p^-1 X_i^T W_i,
// solved by L D L^T of blocks in 2n - 1 steps. Each refinement solves it again, with the factors
// kept, for what inverse dynamics finds missing, tau - ID(q, qd, qdd). What of D_i and U_p depends
// on no position is computed when the chain is prepared (Compliance). Errors grow with the
// condition of the inertias, so float is for short chains. 1,100 to 1,200 vector instructions and
// five divisions a body, one refinement included.
#pragma once

#include "aba.hpp"
#include "rnea.hpp"

namespace pinion {
namespace {

template <class V> struct Spatial {
  Vec3<V> w, l;
};

template <class V> struct Cfa {
  typedef Scalar<V> T;

  // Of one body. S = L diag(1 / inverse) L^T are the pivots, Y = L^-1 U.
  struct Link {
    Vec3<V> r;
    Vec3<V> turned, shifted; // bias acceleration
    Wrench<V> bias;
    Wrench<V> force; // of the joint
    V L[10], inverse[5], Y[25];
    V x[5];
  };
  static constexpr size_t vectors = sizeof(Link) / sizeof(V);

  // A motion in the joint's frame from the one that is turned about x alone.
  template <int KIND>
  static PINION_INLINE void joint(Angle<V> t, V d, Vec3<V> &w, Vec3<V> &l) {
    into(t.c, t.s, w.x, w.y);
    into(t.c, t.s, l.x, l.y);
    if constexpr (KIND != TURN) {
      l.x = fma(d, w.y, l.x);
      l.y = fnma(d, w.x, l.y);
    }
  }

  // W^T of a motion or a force.
  static PINION_INLINE void constrained(const Compliance<T> &c, Vec3<V> a, Vec3<V> l, V *x) {
    x[0] = a.x, x[1] = a.y;
    x[2] = fma(dup<V>(c.wa), a.z, dup<V>(c.wl) * l.z);
    x[3] = l.x, x[4] = l.y;
  }

  // D_i, its lower triangle row by row.
  template <int KIND>
  static PINION_INLINE void diagonal(const Compliance<T> &c, Angle<V> t, V d,
                                     V *D) {
    // Rows of X I_p^-1 X^T but for the joint, then turned and shifted from both sides.
    V P[6][6];
    const T *from = c.before;
    PINION_UNROLL for (int i = 0; i < 6; ++i)
      PINION_UNROLL for (int j = 0; j <= i; ++j) P[i][j] = P[j][i] = dup<V>(*from++);
    PINION_UNROLL for (int i = 0; i < 6; ++i) both<KIND>(t, d, &P[i][0], 1);
    PINION_UNROLL for (int j = 0; j < 6; ++j) both<KIND>(t, d, &P[0][j], 6);
    const V a = dup<V>(c.wa), l = dup<V>(c.wl);
    V R[5][6];
    PINION_UNROLL for (int j = 0; j < 6; ++j) {
      R[0][j] = P[0][j], R[1][j] = P[1][j];
      R[2][j] = fma(a, P[2][j], l * P[5][j]);
      R[3][j] = P[3][j], R[4][j] = P[4][j];
    }
    from = c.own;
    PINION_UNROLL for (int i = 0; i < 5; ++i)
      PINION_UNROLL for (int j = 0; j <= i; ++j) {
        const V x = j == 2 ? fma(a, R[i][2], l * R[i][5]) : R[i][j];
        *D++ = x + dup<V>(*from++);
      }
  }

  // A row or a column of motions.
  template <int KIND>
  static PINION_INLINE void both(Angle<V> t, V d, V *p, int apart) {
    Vec3<V> w = {p[0], p[apart], p[2 * apart]}, l = {p[3 * apart], p[4 * apart], p[5 * apart]};
    joint<KIND>(t, d, w, l);
    p[0] = w.x, p[apart] = w.y, p[2 * apart] = w.z;
    p[3 * apart] = l.x, p[4 * apart] = l.y, p[5 * apart] = l.z;
  }

  // U_p, row by row.
  template <int KIND>
  static PINION_INLINE void upper(const Compliance<T> &c, Angle<V> t, V d,
                                  V *U) {
    PINION_UNROLL for (int i = 0; i < 5; ++i, U += 5) {
      const T *row = c.cross + 6 * i;
      Vec3<V> w = dup3<V>(row), l = dup3<V>(row + 3);
      joint<KIND>(t, d, w, l);
      V x[5];
      constrained(c, w, l, x);
      PINION_UNROLL for (int j = 0; j < 5; ++j) U[j] = -x[j];
    }
  }

  // S = L diag(1 / inverse) L^T, from S.
  static PINION_INLINE void factorise(const V *S, Link &k) {
    V *L = k.L;
    V y[4];
    PINION_UNROLL for (int i = 0; i < 5; S += ++i) {
      V d = S[i];
      PINION_UNROLL for (int j = 0; j < i; ++j) {
        y[j] = S[j];
        PINION_UNROLL for (int m = 0; m < j; ++m) y[j] = fnma(k.L[j * (j - 1) / 2 + m], y[m], y[j]);
        L[j] = y[j] * k.inverse[j];
        d = fnma(y[j], L[j], d);
      }
      k.inverse[i] = recip(d);
      L += i;
    }
  }
  // x = L^-1 x; rows of x are `apart`.
  static PINION_INLINE void forward(const Link &k, V *x, int apart = 1) {
    PINION_UNROLL for (int i = 1; i < 5; ++i)
      PINION_UNROLL for (int j = 0; j < i; ++j)
        x[i * apart] = fnma(k.L[i * (i - 1) / 2 + j], x[j * apart], x[i * apart]);
  }
  // x = L^-T x.
  static PINION_INLINE void backward(const Link &k, V *x) {
    PINION_UNROLL for (int i = 4; i-- > 0;)
      PINION_UNROLL for (int j = i + 1; j < 5; ++j)
        x[i] = fnma(k.L[j * (j - 1) / 2 + i], x[j], x[i]);
  }

  static PINION_INLINE Spatial<V> accelerated(const Compliance<T> &c, const Wrench<V> &w) {
    const V f[6] = {w.n.x, w.n.y, w.n.z, w.f.x, w.f.y, w.f.z};
    V a[6];
    PINION_UNROLL for (int i = 0; i < 6; ++i) {
      a[i] = V{};
      PINION_UNROLL for (int j = 0; j < 6; ++j) {
        const int m = i > j ? i * (i + 1) / 2 + j : j * (j + 1) / 2 + i;
        a[i] = fma(dup<V>(c.inverse[m]), f[j], a[i]);
      }
    }
    return {{a[0], a[1], a[2]}, {a[3], a[4], a[5]}};
  }

  static PINION_INLINE Wrench<V> minus(const Wrench<V> &a, const Wrench<V> &b) {
    return {{a.n.x - b.n.x, a.n.y - b.n.y, a.n.z - b.n.z},
            {a.f.x - b.f.x, a.f.y - b.f.y, a.f.z - b.f.z}};
  }

  // The parent's acceleration at the body's origin in its frame, with the bias.
  static PINION_INLINE Spatial<V> carried(const Body<T> &b, Angle<V> t, const Link &k, bool biased,
                                          const Spatial<V> &p) {
    Spatial<V> a = {p.w, cross_add(p.w, k.r, p.l)};
    enter(b, t, a.w);
    enter(b, t, a.l);
    if (biased) a = {a.w + k.turned, a.l + k.shifted};
    return a;
  }

  // A wrench S tau / (S^T S).
  static PINION_INLINE Wrench<V> driven(const Body<T> &b, const Compliance<T> &c, V tau) {
    const V zero = V{}, x = tau * dup<V>(c.scale);
    return {{zero, zero, x * dup<V>(b.turn)}, {zero, zero, x * dup<V>(b.shift)}};
  }

  // Accelerations by the factors, added to qdd; `biased` with those of gravity and velocities.
  static void solve(const Chain<T> &chain, const V *tau, bool biased, const Angle<V> *angle,
                    Link *link, V *qdd) {
    const int n = chain.bodies;
    const V zero = V{};
    Spatial<V> base = {{zero, zero, zero}, {zero, zero, zero}};
    if (biased) {
      const Vec3<V> g = dup3<V>(chain.gravity);
      base.l = {-g.x, -g.y, -g.z};
    }
    // Bodies without constraint forces.
    Spatial<V> before = base;
    for (int i = 0; i < n; ++i) {
      const Body<T> &b = chain.body[i];
      const Compliance<T> &c = chain.compliance[i];
      Link &k = link[i];
      Wrench<V> w = driven(b, c, tau[i]);
      if (biased) w = minus(w, k.bias);
      if (i + 1 < n) {
        Wrench<V> next = driven(chain.body[i + 1], chain.compliance[i + 1], tau[i + 1]);
        pass_on(chain.body[i + 1], angle[i + 1], link[i + 1].r, next);
        w = minus(w, next);
      }
      const Spatial<V> own = accelerated(c, w), a = carried(b, angle[i], k, biased, before);
      V *const x = k.x;
      constrained(c, {a.w.x - own.w.x, a.w.y - own.w.y, a.w.z - own.w.z},
                  {a.l.x - own.l.x, a.l.y - own.l.y, a.l.z - own.l.z}, x);
      if (i > 0) {
        const Link &p = link[i - 1];
        V y[5];
        PINION_UNROLL for (int m = 0; m < 5; ++m) y[m] = p.x[m] * p.inverse[m];
        PINION_UNROLL for (int j = 0; j < 5; ++j)
          PINION_UNROLL for (int m = 0; m < 5; ++m) x[j] = fnma(p.Y[5 * m + j], y[m], x[j]);
      }
      forward(k, x);
      before = own;
    }
    // Constraint forces, and the joints' wrenches.
    V f[5];
    for (int i = n; i-- > 0;) {
      const Body<T> &b = chain.body[i];
      const Compliance<T> &c = chain.compliance[i];
      Link &k = link[i];
      V x[5];
      PINION_UNROLL for (int j = 0; j < 5; ++j) {
        x[j] = k.x[j];
        if (i + 1 < n)
          PINION_UNROLL for (int m = 0; m < 5; ++m) x[j] = fnma(k.Y[5 * j + m], f[m], x[j]);
        x[j] = x[j] * k.inverse[j];
      }
      backward(k, x);
      PINION_UNROLL for (int j = 0; j < 5; ++j) f[j] = x[j];
      k.force = driven(b, c, tau[i]);
      k.force.n = {f[0], f[1], fma(f[2], dup<V>(c.wa), k.force.n.z)};
      k.force.f = {f[3], f[4], fma(f[2], dup<V>(c.wl), k.force.f.z)};
    }
    before = base;
    for (int i = 0; i < n; ++i) {
      const Body<T> &b = chain.body[i];
      const Compliance<T> &c = chain.compliance[i];
      const Link &k = link[i];
      Wrench<V> w = biased ? minus(k.force, k.bias) : k.force;
      if (i + 1 < n) {
        Wrench<V> next = link[i + 1].force;
        pass_on(chain.body[i + 1], angle[i + 1], link[i + 1].r, next);
        w = minus(w, next);
      }
      const Spatial<V> own = accelerated(c, w), a = carried(b, angle[i], k, biased, before);
      const V relative = fma(dup<V>(b.turn), own.w.z - a.w.z, dup<V>(b.shift) * (own.l.z - a.l.z));
      qdd[i] = fma(relative, dup<V>(c.scale), qdd[i]);
      before = own;
    }
  }
};

// in : q, qd, tau.
template <class V> struct Function_cfa {
  typedef Scalar<V> T;
  static size_t vectors(const Chain<T> &chain) {
    return chain.bodies * (Rnea<V>::vectors + Cfa<V>::vectors + 2) +
           2 * PINION_BLOCK * sizeof(T) / sizeof(V) * chain.bodies;
  }

  static void compute(const Chain<T> &chain, const T *const *in, T *out, V *memory) {
    typedef typename Cfa<V>::Link Link;
    const int n = chain.bodies;
    const V zero = V{};
    const Rnea<V> room(memory, n);
    Link *const link = (Link *)(memory + Rnea<V>::vectors * n);
    V *const tau = (V *)(link + n), *const qdd = tau + n;
    T *const found = (T *)(qdd + n), *const missing = found + PINION_BLOCK * n;
    turns<V>(chain, in[0], room.angle);

    Vec3<V> w = {zero, zero, zero};
    Spin<V> B = spin(w);
    for (int i = 0; i < n; ++i) {
      const Body<T> &b = chain.body[i];
      const Compliance<T> &c = chain.compliance[i];
      Link &k = link[i];
      const V q = at<V>(in[0], i), qd = at<V>(in[1], i);
      const V d = q * dup<V>(b.shift);
      Joint<V> j;
      j.angle = room.angle[i];
      V S[15], U[25];
#define PINION_STEP(KIND)                                                                          \
  do {                                                                                             \
    k.r = origin<V, KIND>(b, q);                                                                   \
    bias<V, KIND>(b, q, qd, B, w, j);                                                              \
    Cfa<V>::template diagonal<KIND>(c, j.angle, d, S);                                          \
    if (i > 0) Cfa<V>::template upper<KIND>(c, j.angle, d, U);                                  \
  } while (0)
      PINION_BY_KIND(b.kind, PINION_STEP)
#undef PINION_STEP
      B = spin(w);
      k.turned = j.turned;
      k.shifted = j.shifted;
      k.bias = gyroscopic(b, B, w);
      if (i > 0) {
        Link &p = link[i - 1];
        PINION_UNROLL for (int m = 0; m < 5; ++m) Cfa<V>::forward(p, U + m, 5);
        for (int m = 0; m < 25; ++m) p.Y[m] = U[m];
        PINION_UNROLL for (int m = 0; m < 5; ++m) {
          V *s = S;
          PINION_UNROLL for (int r = 0; r < 5; ++r) {
            const V y = U[5 * m + r] * p.inverse[m];
            PINION_UNROLL for (int j = 0; j <= r; ++j, ++s) *s = fnma(y, U[5 * m + j], *s);
          }
        }
      }
      Cfa<V>::factorise(S, k);
      tau[i] = at<V>(in[2], i);
      qdd[i] = zero;
    }

    Cfa<V>::solve(chain, tau, true, room.angle, link, qdd);
    for (int step = 0; step < chain.refine; ++step) {
      for (int i = 0; i < n; ++i) {
        store<V>(found + PINION_BLOCK * i, qdd[i]);
        store<V>(missing + PINION_BLOCK * i, at<V>(in[2], i));
      }
      efforts<V, true>(chain, in[0], in[1], found, missing, room);
      for (int i = 0; i < n; ++i) tau[i] = at<V>(missing, i);
      Cfa<V>::solve(chain, tau, false, room.angle, link, qdd);
    }
    for (int i = 0; i < n; ++i) store<V>(out + PINION_BLOCK * i, qdd[i]);
  }
};

} // namespace
} // namespace pinion
