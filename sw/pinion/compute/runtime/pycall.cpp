// A kernel as a Python callable: checks NumPy arrays, allocates results, runs, in well under a
// microsecond. Whatever is not plainly right (another dtype or layout, a wrong shape, NaN) goes to a
// Python function with the same arguments, which converts or refuses it.
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <Python.h>
#include <structmember.h>
#include <numpy/arrayobject.h>
#include <math.h>
#include <stddef.h>

#include "abi.h"
#include "reuse.hpp"

namespace {

constexpr int MOST_ARRAYS = 32, MOST_AXES = 8;
// At this size or more, results begin at a cache line, which NumPy's own memory does not promise.
constexpr size_t ALIGNED_FROM = 4096;
// Shorter batches keep the interpreter's lock: giving it back costs as much as they take.
constexpr npy_intp UNLOCKED_FROM = 64;
// How far the square of a length may be from 1. This is a little less than what is refused, which
// the Python function says exactly.
constexpr double UNIT_TOLERANCE = 1.9e-6;

// One per process, for all kernels: what is kept is bounded for all of them together.
pinion::Reuse memory;

struct Array {
  PyObject *name; // interned
  int axes;
  npy_intp shape[MOST_AXES]; // without the batch
  npy_intp size;
};

// Elements of an input that are a vector of unit length, a quaternion (4) or a cosine and a sine (2),
// or one that is 0 or 1, of a mask (1).
struct Restriction {
  int input, first, size;
};

struct Caller {
  PyObject_HEAD
  vectorcallfunc call;
  const pinion_kernel *kernel;
  int inputs, outputs;
  Array array[MOST_ARRAYS]; // inputs, then outputs
  int type, layout;
  int finite; // whether infinities and NaN are refused
  int restrictions;
  Restriction *restriction;
  int reuse; // whether results are in memory of earlier ones
  unsigned threads;
  PyObject *result_type, *otherwise;
  PyObject *arrays_slot, *cycles_slot, *saturated, *out, *nothing;
  void *data; // the kernel's last input, of no elements, which callers do not give; or null
  PyObject *flag[2]; // what `saturated` is for one request: without axes, for reading only
};

PyObject *otherwise(Caller *self, PyObject *const *args, size_t flags, PyObject *names) {
  return PyObject_Vectorcall(self->otherwise, args, flags, names);
}

// An array of this memory holds the capsule: this is called when no such array is left.
void give_back(PyObject *capsule) { free(PyCapsule_GetPointer(capsule, nullptr)); }
void keep(PyObject *capsule) {
  memory.put(PyCapsule_GetPointer(capsule, nullptr), (size_t)PyCapsule_GetContext(capsule));
}

// An array without values that begins at a cache line, unless it is short.
PyObject *new_array(int axes, const npy_intp *dims, int type, size_t bytes, bool reuse) {
  if (bytes < ALIGNED_FROM) return PyArray_SimpleNew(axes, (npy_intp *)dims, type);
  const size_t size = pinion::Reuse::rounded(bytes);
  void *data = nullptr;
  if (reuse)
    data = memory.take(size);
  else if (posix_memalign(&data, 64, size) != 0)
    data = nullptr;
  if (!data) return PyErr_NoMemory();
  PyObject *owner = PyCapsule_New(data, nullptr, reuse ? keep : give_back);
  if (!owner) {
    free(data);
    return nullptr;
  }
  PyCapsule_SetContext(owner, (void *)size);
  PyObject *made = PyArray_SimpleNewFromData(axes, (npy_intp *)dims, type, data);
  if (!made) {
    Py_DECREF(owner);
  } else if (PyArray_SetBaseObject((PyArrayObject *)made, owner) < 0) { // which takes the owner
    Py_CLEAR(made);
  }
  return made;
}

// Axes of an array of n samples, and how many there are.
int axes_of(const Array &a, int layout, npy_intp n, bool single, npy_intp *dims) {
  int axes = 0;
  if (layout == PINION_BLOCKS)
    dims[axes++] = n / PINION_BLOCK;
  else if (layout == PINION_AOS && !single)
    dims[axes++] = n;
  for (int k = 0; k < a.axes; ++k) dims[axes++] = a.shape[k];
  if (layout == PINION_BLOCKS)
    dims[axes++] = PINION_BLOCK;
  else if (layout == PINION_SOA)
    dims[axes++] = n;
  return axes;
}

PyObject *make_array(const Caller *self, const Array &a, bool single, npy_intp n) {
  npy_intp dims[MOST_AXES + 2];
  const int axes = axes_of(a, self->layout, n, single, dims);
  const size_t bytes = self->kernel->bytes * (size_t)a.size * (size_t)n;
  return new_array(axes, dims, self->type, bytes, self->reuse);
}

// What of an array the kernel needs to know; samples is -1 for one sample without a batch axis.
struct Found {
  npy_intp samples, stride;
};

// Whether the elements of an array in SOA stand at one distance, which is no less than its samples.
bool rows_fit(const Array &a, PyArrayObject *array, npy_intp *stride) {
  const npy_intp *strides = PyArray_STRIDES(array), size = PyArray_ITEMSIZE(array);
  const npy_intp n = PyArray_DIMS(array)[a.axes];
  if (n > 1 && strides[a.axes] != size) return false;
  npy_intp row = -1, next = -1; // in bytes: of a row, and what the axis before must have
  for (int k = a.axes - 1; k >= 0; --k) {
    if (a.shape[k] <= 1) continue;
    if (row < 0) row = next = strides[k];
    if (strides[k] != next) return false;
    next *= a.shape[k];
  }
  if (row < 0) row = n * size;
  *stride = row / size;
  return row % size == 0 && *stride >= n;
}

// Whether each sample of an input in AOS is contiguous, as in a slice of the columns of a state; samples
// may stand at any distance, or be one that is repeated.
bool samples_fit(const Array &a, PyArrayObject *array, npy_intp *stride) {
  const npy_intp *strides = PyArray_STRIDES(array), size = PyArray_ITEMSIZE(array);
  npy_intp next = size;
  for (int k = a.axes; k >= 1; --k) {
    if (PyArray_DIMS(array)[k] > 1 && strides[k] != next) return false;
    next *= PyArray_DIMS(array)[k];
  }
  if (PyArray_DIMS(array)[0] > 1) *stride = strides[0] / size;
  return strides[0] >= 0 && strides[0] % size == 0;
}

// Whether an object is an array of this kind that the kernel may use as it is; only inputs may have
// samples apart.
bool fits(const Caller *self, const Array &a, PyObject *object, Found *found, bool input) {
  if (!PyArray_CheckExact(object)) return false;
  PyArrayObject *array = (PyArrayObject *)object;
  if (PyArray_TYPE(array) != self->type || !PyArray_ISALIGNED(array) ||
      !PyArray_ISNOTSWAPPED(array)) {
    return false;
  }
  const npy_intp *shape = PyArray_DIMS(array);
  const int axes = PyArray_NDIM(array);
  int first = 0; // axis of the elements
  if (self->layout == PINION_SOA) {
    if (axes != a.axes + 1) return false;
    found->samples = shape[a.axes];
  } else if (self->layout == PINION_BLOCKS) {
    if (axes != a.axes + 2 || shape[axes - 1] != PINION_BLOCK) return false;
    found->samples = shape[0] * PINION_BLOCK;
    first = 1;
  } else {
    first = axes - a.axes;
    if (first != 0 && first != 1) return false;
    found->samples = first ? shape[0] : -1;
  }
  for (int k = 0; k < a.axes; ++k)
    if (shape[first + k] != a.shape[k]) return false;
  found->stride = a.size;
  if (self->layout == PINION_SOA) return rows_fit(a, array, &found->stride);
  if (PyArray_IS_C_CONTIGUOUS(array)) return true;
  return input && self->layout == PINION_AOS && first && samples_fit(a, array, &found->stride);
}

// Index of the first number that is not finite, -1 when there is none; rows may stand apart.
int64_t first_nonfinite(const Caller *self, const Array &a, PyArrayObject *array) {
  const int bytes = (int)self->kernel->bytes;
  if (PyArray_IS_C_CONTIGUOUS(array)) {
    return pinion_first_nonfinite(PyArray_DATA(array), bytes, (size_t)PyArray_SIZE(array));
  }
  npy_intp stride = 0, rows = a.size, length = PyArray_DIMS(array)[a.axes];
  if (self->layout == PINION_AOS) {
    samples_fit(a, array, &stride);
    rows = PyArray_DIMS(array)[0];
    length = a.size;
  } else {
    rows_fit(a, array, &stride);
  }
  for (npy_intp k = 0; k < rows; ++k) {
    const char *row = (const char *)PyArray_DATA(array) + k * stride * bytes;
    if (pinion_first_nonfinite(row, bytes, (size_t)length) != -1) return k;
  }
  return -1;
}

// Whether n vectors of T have unit length, or n elements are 0 or 1: element e of vector s is at
// s * step + e * apart.
template <class T>
bool restricted(const T *x, npy_intp n, npy_intp step, npy_intp apart, int size) {
  bool bad = false;
  if (size == 4) {
    for (npy_intp s = 0; s < n; ++s, x += step) {
      const double a = x[0], b = x[apart], c = x[2 * apart], d = x[3 * apart];
      bad |= !(fabs((a * a + b * b) + (c * c + d * d) - 1) <= UNIT_TOLERANCE);
    }
  } else if (size == 1) {
    for (npy_intp s = 0; s < n; ++s, x += step) bad |= !(x[0] == 0 || x[0] == 1);
  } else {
    for (npy_intp s = 0; s < n; ++s, x += step) {
      const double a = x[0], b = x[apart];
      bad |= !(fabs(a * a + b * b - 1) <= UNIT_TOLERANCE);
    }
  }
  return !bad;
}

// Whether all elements of an input are as a restriction has them; NaN never is.
template <class T>
bool all_restricted(const Restriction &r, const Array &a, const pinion_view &view, npy_intp n) {
  const T *x = (const T *)view.data;
  if (view.layout == PINION_ONE) return restricted(x + r.first, 1, 0, 1, r.size);
  if (view.layout == PINION_AOS) return restricted(x + r.first, n, view.stride, 1, r.size);
  if (view.layout == PINION_SOA)
    return restricted(x + r.first * view.stride, n, 1, view.stride, r.size);
  bool good = true;
  for (npy_intp b = 0; b < n / PINION_BLOCK; ++b, x += a.size * PINION_BLOCK)
    good &= restricted(x + r.first * PINION_BLOCK, PINION_BLOCK, 1, PINION_BLOCK, r.size);
  return good;
}

struct Span {
  const char *begin, *end;
  bool meets(const Span &other) const { return begin < other.end && other.begin < end; }
};

// From the first byte to the last one; with rows apart, what is between them counts as well.
Span span_of(PyObject *object) {
  PyArrayObject *array = (PyArrayObject *)object;
  const char *begin = (const char *)PyArray_DATA(array);
  npy_intp last = 0;
  for (int k = 0; k < PyArray_NDIM(array); ++k) {
    if (PyArray_DIMS(array)[k] == 0) return {begin, begin};
    last += (PyArray_DIMS(array)[k] - 1) * PyArray_STRIDES(array)[k];
  }
  return {begin, begin + last + PyArray_ITEMSIZE(array)};
}

// As pinion.functions.Result makes itself: the class refuses attributes, its slots take them. A
// result that was given is written, and returned.
PyObject *make_result(Caller *self, PyObject *given, PyObject *arrays) {
  PyTypeObject *type = (PyTypeObject *)self->result_type;
  PyObject *made = given ? Py_NewRef(given) : type->tp_new(type, self->nothing, nullptr);
  if (made && (PyObject_GenericSetAttr(made, self->arrays_slot, arrays) < 0 ||
               PyObject_GenericSetAttr(made, self->cycles_slot, Py_None) < 0)) {
    Py_CLEAR(made);
  }
  return made;
}

// Whether an object is an array of flags that may be written, one a sample.
bool flags_fit(PyObject *object, bool single, npy_intp n) {
  if (!PyArray_CheckExact(object)) return false;
  PyArrayObject *array = (PyArrayObject *)object;
  return PyArray_TYPE(array) == NPY_BOOL && PyArray_IS_C_CONTIGUOUS(array) &&
         PyArray_ISWRITEABLE(array) && PyArray_NDIM(array) == (single ? 0 : 1) &&
         (single || PyArray_DIMS(array)[0] == n);
}

PyObject *call(PyObject *callable, PyObject *const *args, size_t flags, PyObject *names) {
  Caller *self = (Caller *)callable;
  const Py_ssize_t given = names ? PyTuple_GET_SIZE(names) : 0;
  const Py_ssize_t placed = PyVectorcall_NARGS(flags);
  if (placed > self->inputs) return otherwise(self, args, flags, names);

  PyObject *in[MOST_ARRAYS] = {};
  PyObject *out = nullptr;
  for (Py_ssize_t p = 0; p < placed; ++p) in[p] = args[p];
  for (Py_ssize_t g = 0; g < given; ++g) {
    PyObject *name = PyTuple_GET_ITEM(names, g);
    int k = 0;
    while (k < self->inputs && self->array[k].name != name) ++k;
    // Names made at run time are not the same object as the interned ones, though they are equal.
    if (k == self->inputs && name != self->out) {
      k = 0;
      while (k < self->inputs && PyUnicode_Compare(self->array[k].name, name) != 0) ++k;
    }
    if (k < self->inputs) {
      if (in[k]) return otherwise(self, args, flags, names); // by position, too
      in[k] = args[placed + g];
    } else if (name == self->out || PyUnicode_Compare(self->out, name) == 0) {
      out = args[placed + g] == Py_None ? nullptr : args[placed + g];
    } else {
      return otherwise(self, args, flags, names); // unknown
    }
  }
  PyObject *earlier = nullptr; // a result that is written
  PyObject *arrays = nullptr;
  if (out && Py_TYPE(out) == (PyTypeObject *)self->result_type) {
    earlier = out;
    out = arrays = PyObject_GenericGetAttr(earlier, self->arrays_slot);
    if (!arrays) return nullptr;
  }

  pinion_view in_view[MOST_ARRAYS + 1], out_view[MOST_ARRAYS];
  PyObject *made[MOST_ARRAYS] = {};
  PyObject *result = nullptr, *flagged = nullptr;
  npy_intp n = -1, count = 1;
  bool single = true, plain = !out || PyDict_CheckExact(out);
  int status = 0;
  uint8_t flag = 0, *flag_bytes = &flag;
  for (int k = 0; plain && k < self->inputs; ++k) {
    Found found;
    plain = in[k] && fits(self, self->array[k], in[k], &found, true) &&
            (found.samples < 0 || n < 0 || found.samples == n);
    if (!plain) break;
    if (found.samples >= 0) n = found.samples;
    PyArrayObject *array = (PyArrayObject *)in[k];
    plain = !self->finite || first_nonfinite(self, self->array[k], array) == -1;
    in_view[k] = {PyArray_DATA(array), found.samples < 0 ? PINION_ONE : self->layout, found.stride};
  }
  in_view[self->inputs] = {self->data, PINION_BLOCKS, 0};
  single = n < 0;
  count = single ? 1 : n;
  for (int k = 0; plain && k < self->restrictions; ++k) {
    const Restriction &r = self->restriction[k];
    plain = self->type == NPY_FLOAT
                ? all_restricted<float>(r, self->array[r.input], in_view[r.input], count)
                : all_restricted<double>(r, self->array[r.input], in_view[r.input], count);
  }
  if (plain && out) {
    flagged = Py_XNewRef(PyDict_GetItemWithError(out, self->saturated));
    plain = PyDict_GET_SIZE(out) == self->outputs + (flagged ? 1 : 0);
    if (earlier && flagged && !flags_fit(flagged, single, n)) Py_CLEAR(flagged); // a single one's
    plain &= !flagged || flags_fit(flagged, single, n);
  }
  for (int k = 0; plain && k < self->outputs; ++k) {
    const Array &a = self->array[self->inputs + k];
    Found found = {n, self->layout == PINION_SOA ? count : a.size};
    if (out) {
      PyObject *object = PyDict_GetItemWithError(out, a.name);
      plain = object && fits(self, a, object, &found, false) && found.samples == n &&
              PyArray_ISWRITEABLE((PyArrayObject *)object);
      if (!plain) break;
      const Span span = span_of(object);
      for (int j = 0; j < self->inputs; ++j) plain &= !span.meets(span_of(in[j]));
      for (int j = 0; j < k; ++j) plain &= !span.meets(span_of(made[j]));
      plain &= !flagged || !span.meets(span_of(flagged));
      made[k] = Py_NewRef(object);
    } else {
      made[k] = make_array(self, a, single, count);
      if (!made[k]) goto done;
    }
    out_view[k] = {PyArray_DATA((PyArrayObject *)made[k]), self->layout, found.stride};
  }
  for (int j = 0; plain && flagged && j < self->inputs; ++j)
    plain = !span_of(flagged).meets(span_of(in[j]));
  if (!plain) {
    if (!PyErr_Occurred()) result = otherwise(self, args, flags, names);
    goto done;
  }

  if (!single || flagged) {
    if (!flagged) flagged = new_array(1, &n, NPY_BOOL, (size_t)n, self->reuse);
    if (!flagged) goto done;
    flag_bytes = (uint8_t *)PyArray_DATA((PyArrayObject *)flagged);
  }
  if (count < UNLOCKED_FROM) {
    status = pinion_run_flagged(self->kernel, (size_t)count, in_view, out_view, flag_bytes, 1);
  } else {
    Py_BEGIN_ALLOW_THREADS;
    status = pinion_run_flagged(self->kernel, (size_t)count, in_view, out_view, flag_bytes,
                                self->threads);
    Py_END_ALLOW_THREADS;
  }
  if (status == PINION_NO_MEMORY) {
    PyErr_NoMemory();
    goto done;
  }
  if (status != PINION_DONE) {
    PyErr_Format(PyExc_RuntimeError, "pinion_run answered %d.", status);
    goto done;
  }

  if (!arrays) arrays = PyDict_New();
  if (!arrays) goto done;
  for (int k = 0; k < self->outputs; ++k)
    if (PyDict_SetItem(arrays, self->array[self->inputs + k].name, made[k]) < 0) goto done;
  if (!flagged) flagged = Py_NewRef(self->flag[flag]);
  if (PyDict_SetItem(arrays, self->saturated, flagged) < 0) goto done;
  result = make_result(self, earlier, arrays);
done:
  for (int k = 0; k < self->outputs; ++k) Py_XDECREF(made[k]);
  Py_XDECREF(flagged);
  Py_XDECREF(arrays);
  return result;
}

int traverse(PyObject *object, visitproc visit, void *arg) {
  Caller *self = (Caller *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->result_type);
  Py_VISIT(self->otherwise);
  return 0;
}

int clear(PyObject *object) {
  Caller *self = (Caller *)object;
  Py_CLEAR(self->otherwise);
  return 0;
}

void dealloc(PyObject *object) {
  Caller *self = (Caller *)object;
  PyTypeObject *type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  for (int k = 0; k < self->inputs + self->outputs; ++k) Py_XDECREF(self->array[k].name);
  Py_XDECREF(self->result_type);
  Py_XDECREF(self->otherwise);
  Py_XDECREF(self->arrays_slot);
  Py_XDECREF(self->cycles_slot);
  Py_XDECREF(self->saturated);
  Py_XDECREF(self->out);
  Py_XDECREF(self->nothing);
  for (PyObject *flag : self->flag) Py_XDECREF(flag);
  PyMem_Free(self->restriction);
  type->tp_free(object);
  Py_DECREF(type);
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Caller, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_call, (void *)PyVectorcall_Call}, {Py_tp_dealloc, (void *)dealloc},
    {Py_tp_traverse, (void *)traverse},      {Py_tp_clear, (void *)clear},
    {Py_tp_members, members},                {0, nullptr},
};

PyType_Spec spec = {"pinion_call.Caller", sizeof(Caller), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                        Py_TPFLAGS_DISALLOW_INSTANTIATION,
                    slots};

// Restrictions: a tuple of (input, first element, size).
bool take_restrictions(PyObject *triples, Caller *self) {
  const Py_ssize_t number = PyTuple_GET_SIZE(triples);
  self->restriction = (Restriction *)PyMem_Calloc((size_t)number + 1, sizeof(Restriction));
  if (!self->restriction) return PyErr_NoMemory(), false;
  for (Py_ssize_t k = 0; k < number; ++k) {
    Restriction &r = self->restriction[k];
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(triples, k), "iii", &r.input, &r.first, &r.size)) {
      return false;
    }
    if (r.input < 0 || r.input >= self->inputs || r.first < 0 || (r.size != 4 && r.size != 2 && r.size != 1) ||
        r.first + r.size > self->array[r.input].size) {
      PyErr_SetString(PyExc_ValueError, "a restriction outside of its array");
      return false;
    }
  }
  self->restrictions = (int)number;
  return true;
}

// Names and shapes: a tuple of (name, shape) pairs.
bool take_arrays(PyObject *pairs, Array *array, int *count) {
  const Py_ssize_t number = PyTuple_GET_SIZE(pairs);
  for (Py_ssize_t k = 0; k < number; ++k) {
    PyObject *name, *shape;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(pairs, k), "UO!", &name, &PyTuple_Type, &shape)) {
      return false;
    }
    const Py_ssize_t axes = PyTuple_GET_SIZE(shape);
    if (axes > MOST_AXES) {
      PyErr_SetString(PyExc_ValueError, "too many axes");
      return false;
    }
    Array &a = array[k];
    a.axes = (int)axes;
    a.size = 1;
    for (Py_ssize_t j = 0; j < axes; ++j) {
      a.shape[j] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, j));
      if (a.shape[j] < 0) return false;
      a.size *= a.shape[j];
    }
    Py_INCREF(name);
    PyUnicode_InternInPlace(&name);
    a.name = name;
    ++*count;
  }
  return true;
}

// caller(kernel, inputs, outputs, float64, layout, finite, restrictions, reuse, threads, result_type,
// otherwise, data): the address of a pinion_kernel, its arrays, how it is called, the address of its
// last input or 0.
PyObject *make_caller(PyObject *module, PyObject *args) {
  unsigned long long address, data;
  PyObject *inputs, *outputs, *restrictions, *result_type, *otherwise;
  int wide, layout, finite, reuse;
  unsigned threads;
  if (!PyArg_ParseTuple(args, "KO!O!pipO!pIO!OK", &address, &PyTuple_Type, &inputs, &PyTuple_Type,
                        &outputs, &wide, &layout, &finite, &PyTuple_Type, &restrictions, &reuse,
                        &threads, &PyType_Type, &result_type, &otherwise, &data)) {
    return nullptr;
  }
  if (PyTuple_GET_SIZE(inputs) + PyTuple_GET_SIZE(outputs) > MOST_ARRAYS) {
    PyErr_SetString(PyExc_ValueError, "too many arrays");
    return nullptr;
  }
  PyTypeObject *type = *(PyTypeObject **)PyModule_GetState(module);
  Caller *self = (Caller *)type->tp_alloc(type, 0);
  if (!self) return nullptr;
  self->call = call;
  self->kernel = (const pinion_kernel *)(uintptr_t)address;
  self->type = wide ? NPY_DOUBLE : NPY_FLOAT;
  self->layout = layout;
  self->finite = finite;
  self->reuse = reuse;
  self->threads = threads;
  self->data = (void *)(uintptr_t)data;
  self->result_type = Py_NewRef(result_type);
  self->otherwise = Py_NewRef(otherwise);
  self->arrays_slot = PyUnicode_InternFromString("_arrays");
  self->cycles_slot = PyUnicode_InternFromString("_cycles");
  self->saturated = PyUnicode_InternFromString("saturated");
  self->out = PyUnicode_InternFromString("out");
  self->nothing = PyTuple_New(0);
  for (int k = 0; k < 2; ++k) {
    PyObject *flag = self->flag[k] = PyArray_ZEROS(0, nullptr, NPY_BOOL, 0);
    if (!flag) continue;
    *(npy_bool *)PyArray_DATA((PyArrayObject *)flag) = (npy_bool)k;
    PyArray_CLEARFLAGS((PyArrayObject *)flag, NPY_ARRAY_WRITEABLE);
  }
  if (!self->arrays_slot || !self->cycles_slot || !self->saturated || !self->out ||
      !self->nothing || !self->flag[0] || !self->flag[1] ||
      !take_arrays(inputs, self->array, &self->inputs) ||
      !take_arrays(outputs, self->array + self->inputs, &self->outputs) ||
      !take_restrictions(restrictions, self)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a negative axis");
    Py_DECREF(self);
    return nullptr;
  }
  return (PyObject *)self;
}

// empty(shape, type number, reuse): an array as results are.
PyObject *make_empty(PyObject *, PyObject *args) {
  PyObject *shape;
  int type, reuse;
  if (!PyArg_ParseTuple(args, "O!ip", &PyTuple_Type, &shape, &type, &reuse)) return nullptr;
  const Py_ssize_t axes = PyTuple_GET_SIZE(shape);
  npy_intp dims[MOST_AXES + 2];
  if (axes > MOST_AXES + 2) {
    PyErr_SetString(PyExc_ValueError, "too many axes");
    return nullptr;
  }
  size_t bytes = type == NPY_DOUBLE ? 8 : type == NPY_FLOAT ? 4 : 1;
  for (Py_ssize_t k = 0; k < axes; ++k) {
    dims[k] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, k));
    if (dims[k] == -1 && PyErr_Occurred()) return nullptr;
    if (__builtin_mul_overflow(bytes, (size_t)dims[k], &bytes)) return PyErr_NoMemory();
  }
  return new_array((int)axes, dims, type, bytes, reuse);
}

// kept(): size in bytes of results no longer referenced; give_up(): returns them to the system.
PyObject *kept(PyObject *, PyObject *) { return PyLong_FromSize_t(memory.kept()); }
PyObject *give_up(PyObject *, PyObject *) {
  memory.give_up();
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"caller", make_caller, METH_VARARGS, nullptr},
    {"empty", make_empty, METH_VARARGS, nullptr},
    {"kept", kept, METH_NOARGS, nullptr},
    {"give_up", give_up, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

int start(PyObject *module) {
  import_array1(-1);
  PyObject **state = (PyObject **)PyModule_GetState(module);
  *state = PyType_FromSpec(&spec);
  return *state ? 0 : -1;
}

PyModuleDef_Slot module_slots[] = {{Py_mod_exec, (void *)start}, {0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "pinion_call", nullptr, sizeof(PyObject *),
                          functions, module_slots, nullptr, nullptr, nullptr};

} // namespace

PyMODINIT_FUNC PyInit_pinion_call(void) { return PyModuleDef_Init(&definition); }
