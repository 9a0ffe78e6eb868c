// A kernel as a Python callable: checks NumPy arrays, allocates results, runs, in well under a
// microsecond. Whatever is not plainly right (another dtype or layout, a wrong shape, NaN) goes to a
// Python function with the same arguments, which converts or refuses it.
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <Python.h>
#include <structmember.h>
#include <numpy/arrayobject.h>
#include <stddef.h>
#include <stdlib.h>

#include "abi.h"

namespace {

constexpr int MOST_ARRAYS = 32, MOST_AXES = 8;
// From this size on results begin at a cache line, which NumPy's own memory does not promise.
constexpr size_t ALIGNED_FROM = 4096;
// Shorter batches keep the interpreter's lock: giving it back costs as much as they take.
constexpr npy_intp UNLOCKED_FROM = 64;

struct Array {
  PyObject *name; // interned
  int axes;
  npy_intp shape[MOST_AXES]; // without the batch
  npy_intp size;
};

struct Caller {
  PyObject_HEAD
  vectorcallfunc call;
  const pinion_kernel *kernel;
  int inputs, outputs;
  Array array[MOST_ARRAYS]; // inputs, then outputs
  int type;
  int finite; // whether infinities and NaN are refused
  unsigned threads;
  PyObject *result_type, *otherwise;
  PyObject *arrays_slot, *cycles_slot, *saturated, *out, *nothing;
};

PyObject *otherwise(Caller *self, PyObject *const *args, size_t flags, PyObject *names) {
  return PyObject_Vectorcall(self->otherwise, args, flags, names);
}

void give_back(PyObject *capsule) { free(PyCapsule_GetPointer(capsule, nullptr)); }

PyObject *make_array(const Array &a, int type, size_t bytes, bool single, npy_intp n) {
  npy_intp dims[MOST_AXES + 1];
  int axes = 0;
  if (!single) dims[axes++] = n;
  for (int k = 0; k < a.axes; ++k) dims[axes++] = a.shape[k];
  const size_t total = bytes * (size_t)a.size * (size_t)n;
  if (total < ALIGNED_FROM) return PyArray_SimpleNew(axes, dims, type);
  void *data = nullptr;
  if (posix_memalign(&data, 64, total) != 0) return PyErr_NoMemory();
  PyObject *owner = PyCapsule_New(data, nullptr, give_back);
  if (!owner) {
    free(data);
    return nullptr;
  }
  PyObject *made = PyArray_SimpleNewFromData(axes, dims, type, data);
  if (!made || PyArray_SetBaseObject((PyArrayObject *)made, owner) < 0) {
    Py_XDECREF(made);
    if (!made) Py_DECREF(owner);
    return nullptr;
  }
  return made;
}

// Whether an object is an array of this kind that the kernel may use as it is; n is -1 for one
// sample without a batch axis.
bool fits(const Array &a, int type, PyObject *object, npy_intp *n) {
  if (!PyArray_CheckExact(object)) return false;
  PyArrayObject *array = (PyArrayObject *)object;
  if (PyArray_TYPE(array) != type || !PyArray_ISCARRAY_RO(array)) return false;
  const int batch = PyArray_NDIM(array) - a.axes;
  if (batch != 0 && batch != 1) return false;
  const npy_intp *shape = PyArray_DIMS(array);
  for (int k = 0; k < a.axes; ++k)
    if (shape[batch + k] != a.shape[k]) return false;
  *n = batch ? shape[0] : -1;
  return true;
}

struct Span {
  const char *begin, *end;
  bool meets(const Span &other) const { return begin < other.end && other.begin < end; }
};

Span span_of(PyObject *object) {
  const char *begin = (const char *)PyArray_DATA((PyArrayObject *)object);
  return {begin, begin + PyArray_NBYTES((PyArrayObject *)object)};
}

// As pinion.functions.Result makes itself: the class refuses attributes, its slots take them.
PyObject *make_result(Caller *self, PyObject *arrays) {
  PyTypeObject *type = (PyTypeObject *)self->result_type;
  PyObject *made = type->tp_new(type, self->nothing, nullptr);
  if (made && (PyObject_GenericSetAttr(made, self->arrays_slot, arrays) < 0 ||
               PyObject_GenericSetAttr(made, self->cycles_slot, Py_None) < 0)) {
    Py_CLEAR(made);
  }
  return made;
}

PyObject *call(PyObject *callable, PyObject *const *args, size_t flags, PyObject *names) {
  Caller *self = (Caller *)callable;
  const Py_ssize_t given = names ? PyTuple_GET_SIZE(names) : 0;
  if (PyVectorcall_NARGS(flags) != 0) return otherwise(self, args, flags, names);

  PyObject *in[MOST_ARRAYS] = {};
  PyObject *out = nullptr;
  for (Py_ssize_t g = 0; g < given; ++g) {
    PyObject *name = PyTuple_GET_ITEM(names, g);
    int k = 0;
    while (k < self->inputs && self->array[k].name != name) ++k;
    if (k < self->inputs) {
      in[k] = args[g];
    } else if (name == self->out) {
      out = args[g] == Py_None ? nullptr : args[g];
    } else {
      return otherwise(self, args, flags, names); // unknown, or not interned
    }
  }
  if (out && !PyDict_CheckExact(out)) return otherwise(self, args, flags, names);

  pinion_view in_view[MOST_ARRAYS], out_view[MOST_ARRAYS];
  npy_intp n = -1;
  for (int k = 0; k < self->inputs; ++k) {
    npy_intp own;
    if (!in[k] || !fits(self->array[k], self->type, in[k], &own)) {
      return otherwise(self, args, flags, names);
    }
    if (own >= 0 && n >= 0 && own != n) return otherwise(self, args, flags, names);
    if (own >= 0) n = own;
    PyArrayObject *array = (PyArrayObject *)in[k];
    void *data = PyArray_DATA(array);
    if (self->finite &&
        pinion_first_nonfinite(data, (int)self->kernel->bytes, (size_t)PyArray_SIZE(array)) != -1) {
      return otherwise(self, args, flags, names);
    }
    in_view[k] = {data, own < 0 ? PINION_ONE : PINION_AOS, self->array[k].size};
  }
  const bool single = n < 0;
  const npy_intp count = single ? 1 : n;

  PyObject *made[MOST_ARRAYS] = {};
  PyObject *result = nullptr, *flagged = nullptr, *arrays = nullptr;
  int status = 0;
  for (int k = 0; k < self->outputs; ++k) {
    const Array &a = self->array[self->inputs + k];
    if (out) {
      npy_intp own;
      PyObject *object = PyDict_GetItemWithError(out, a.name);
      bool good = object && fits(a, self->type, object, &own) && own == n &&
                  PyArray_ISWRITEABLE((PyArrayObject *)object);
      for (int j = 0; good && j < self->inputs; ++j) good = !span_of(object).meets(span_of(in[j]));
      for (int j = 0; good && j < k; ++j) good = !span_of(object).meets(span_of(made[j]));
      if (!good || (k == 0 && PyDict_GET_SIZE(out) != self->outputs)) {
        for (int j = 0; j < k; ++j) Py_DECREF(made[j]);
        return PyErr_Occurred() ? nullptr : otherwise(self, args, flags, names);
      }
      made[k] = Py_NewRef(object);
    } else {
      made[k] = make_array(a, self->type, self->kernel->bytes, single, count);
      if (!made[k]) goto done;
    }
    out_view[k] = {PyArray_DATA((PyArrayObject *)made[k]), PINION_AOS, a.size};
  }

  if (count < UNLOCKED_FROM) {
    status = pinion_run(self->kernel, (size_t)count, in_view, out_view, 1);
  } else {
    Py_BEGIN_ALLOW_THREADS;
    status = pinion_run(self->kernel, (size_t)count, in_view, out_view, self->threads);
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

  arrays = PyDict_New();
  if (!arrays) goto done;
  for (int k = 0; k < self->outputs; ++k)
    if (PyDict_SetItem(arrays, self->array[self->inputs + k].name, made[k]) < 0) goto done;
  flagged = PyArray_ZEROS(single ? 0 : 1, &n, NPY_BOOL, 0);
  if (!flagged || PyDict_SetItem(arrays, self->saturated, flagged) < 0) goto done;
  result = make_result(self, arrays);
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

// caller(kernel, inputs, outputs, float64, finite, threads, result_type, otherwise): the address of
// a pinion_kernel, its arrays, how it is called.
PyObject *make_caller(PyObject *module, PyObject *args) {
  unsigned long long address;
  PyObject *inputs, *outputs, *result_type, *otherwise;
  int wide, finite;
  unsigned threads;
  if (!PyArg_ParseTuple(args, "KO!O!ppIO!O", &address, &PyTuple_Type, &inputs, &PyTuple_Type,
                        &outputs, &wide, &finite, &threads, &PyType_Type, &result_type,
                        &otherwise)) {
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
  self->finite = finite;
  self->threads = threads;
  self->result_type = Py_NewRef(result_type);
  self->otherwise = Py_NewRef(otherwise);
  self->arrays_slot = PyUnicode_InternFromString("_arrays");
  self->cycles_slot = PyUnicode_InternFromString("_cycles");
  self->saturated = PyUnicode_InternFromString("saturated");
  self->out = PyUnicode_InternFromString("out");
  self->nothing = PyTuple_New(0);
  if (!self->arrays_slot || !self->cycles_slot || !self->saturated || !self->out ||
      !self->nothing || !take_arrays(inputs, self->array, &self->inputs) ||
      !take_arrays(outputs, self->array + self->inputs, &self->outputs)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a negative axis");
    Py_DECREF(self);
    return nullptr;
  }
  return (PyObject *)self;
}

PyMethodDef functions[] = {
    {"caller", make_caller, METH_VARARGS, nullptr},
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
