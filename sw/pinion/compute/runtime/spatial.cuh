// Spatial algebra of one body, for one thread (Featherstone 2008, chapter 2).
//
// A spatial vector is [angular; linear] for motions and [moment; force] for forces, in the body's
// coordinates about the origin of its frame. Products that are summed are fused where fma() says so
// and nowhere else, so that a CPU and a GPU compute the same bits.
#pragma once

#include "vec.hpp"

namespace pinion {

template <class T> struct Vector {
  T x, y, z;
};
template <class T> PINION_INLINE Vector<T> operator+(Vector<T> a, Vector<T> b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z};
}
template <class T> PINION_INLINE Vector<T> operator-(Vector<T> a, Vector<T> b) {
  return {a.x - b.x, a.y - b.y, a.z - b.z};
}
// k a + b
template <class T> PINION_INLINE Vector<T> plus_scaled(T k, Vector<T> a, Vector<T> b) {
  return {fma(k, a.x, b.x), fma(k, a.y, b.y), fma(k, a.z, b.z)};
}
template <class T> PINION_INLINE Vector<T> cross(Vector<T> a, Vector<T> b) {
  return {fms(a.y, b.z, a.z * b.y), fms(a.z, b.x, a.x * b.z), fms(a.x, b.y, a.y * b.x)};
}
// a x z, with the unit vector z
template <class T> PINION_INLINE Vector<T> cross_z(Vector<T> a) { return {a.y, -a.x, T(0)}; }
// a b + c d + e f
template <class T> PINION_INLINE T sum_of_products(T a, T b, T c, T d, T e, T f) {
  return fma(a, b, fma(c, d, e * f));
}

// Row by row.
template <class T> struct Matrix {
  T xx, xy, xz, yx, yy, yz, zx, zy, zz;
};
template <class T> PINION_INLINE Vector<T> operator*(const Matrix<T> &m, Vector<T> a) {
  return {sum_of_products(m.xx, a.x, m.xy, a.y, m.xz, a.z),
          sum_of_products(m.yx, a.x, m.yy, a.y, m.yz, a.z),
          sum_of_products(m.zx, a.x, m.zy, a.y, m.zz, a.z)};
}
// m^T a
template <class T> PINION_INLINE Vector<T> transposed_times(const Matrix<T> &m, Vector<T> a) {
  return {sum_of_products(m.xx, a.x, m.yx, a.y, m.zx, a.z),
          sum_of_products(m.xy, a.x, m.yy, a.y, m.zy, a.z),
          sum_of_products(m.xz, a.x, m.yz, a.y, m.zz, a.z)};
}

template <class T> struct Spatial {
  Vector<T> angular, linear;
};
template <class T> PINION_INLINE Spatial<T> operator+(Spatial<T> a, Spatial<T> b) {
  return {a.angular + b.angular, a.linear + b.linear};
}
template <class T> PINION_INLINE Spatial<T> operator-(Spatial<T> a, Spatial<T> b) {
  return {a.angular - b.angular, a.linear - b.linear};
}
// v x m = [w x m_a; w x m_l + v x m_a]
template <class T> PINION_INLINE Spatial<T> cross_motion(Spatial<T> v, Spatial<T> m) {
  return {cross(v.angular, m.angular), cross(v.angular, m.linear) + cross(v.linear, m.angular)};
}
// v x* f = [w x n + v x f; w x f]
template <class T> PINION_INLINE Spatial<T> cross_force(Spatial<T> v, Spatial<T> f) {
  return {cross(v.angular, f.angular) + cross(v.linear, f.linear), cross(v.angular, f.linear)};
}

// m a, both row by row.
template <class T> PINION_INLINE Matrix<T> operator*(const Matrix<T> &m, const Matrix<T> &a) {
  const Vector<T> x = transposed_times(a, Vector<T>{m.xx, m.xy, m.xz});
  const Vector<T> y = transposed_times(a, Vector<T>{m.yx, m.yy, m.yz});
  const Vector<T> z = transposed_times(a, Vector<T>{m.zx, m.zy, m.zz});
  return {x.x, x.y, x.z, y.x, y.y, y.z, z.x, z.y, z.z};
}

// Where a body's frame is in its parent's: Xup = [E 0; -E r^ E]. E turns parent coordinates into
// the body's, r is the origin in parent coordinates.
template <class T> struct Placement {
  Matrix<T> E;
  Vector<T> r;

  // Xup m: a motion from parent to body.
  PINION_INLINE Spatial<T> motion(Spatial<T> m) const {
    return {E * m.angular, E * (m.linear - cross(r, m.angular))};
  }
  // Xup^T f: a force from body to parent.
  PINION_INLINE Spatial<T> force(Spatial<T> f) const {
    const Vector<T> linear = transposed_times(E, f.linear);
    return {transposed_times(E, f.angular) + cross(r, linear), linear};
  }
  // The product of motion matrices: first `before`, then this.
  PINION_INLINE Placement after(const Placement &before) const {
    return {E * before.E, before.r + transposed_times(before.E, r)};
  }
};

// A rigid inertia about a frame's origin: mass, first moment, rotational inertia.
template <class T> struct Rigid {
  T mass;
  Vector<T> h;
  T xx, xy, xz, yy, yz, zz;

  PINION_INLINE Vector<T> rotational(Vector<T> a) const {
    return {sum_of_products(xx, a.x, xy, a.y, xz, a.z), sum_of_products(xy, a.x, yy, a.y, yz, a.z),
            sum_of_products(xz, a.x, yz, a.y, zz, a.z)};
  }
  // I m = [I w + h x v; m v - h x w]
  PINION_INLINE Spatial<T> times(Spatial<T> m) const {
    return {rotational(m.angular) + cross(h, m.linear),
            plus_scaled(mass, m.linear, cross(m.angular, h))};
  }
  // X^T I X: the same inertia about the parent's origin, in the parent's coordinates. The lever
  // adds as in dynamics/composite.py, with the first moments before and after it.
  PINION_INLINE Rigid to_parent(const Placement<T> &X) const {
    const Matrix<T> &E = X.E;
    const Vector<T> d = X.r, before = transposed_times(E, h), after = plus_scaled(mass, d, before);
    const Vector<T> x = transposed_times(E, rotational({E.xx, E.yx, E.zx}));
    const Vector<T> y = transposed_times(E, rotational({E.xy, E.yy, E.zy}));
    const Vector<T> z = transposed_times(E, rotational({E.xz, E.yz, E.zz}));
    const Vector<T> both = before + after;
    return {mass,
            after,
            fma(d.y, both.y, fma(d.z, both.z, x.x)),
            fnma(d.y, before.x, fnma(d.x, after.y, x.y)),
            fnma(d.z, before.x, fnma(d.x, after.z, x.z)),
            fma(d.x, both.x, fma(d.z, both.z, y.y)),
            fnma(d.z, before.y, fnma(d.y, after.z, y.z)),
            fma(d.x, both.x, fma(d.y, both.y, z.z))};
  }
};

} // namespace pinion
