// A module for Python: the longest of a list's words, and how often each length occurs.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

enum { LENGTHS = 16 };

static PyObject *lengths(PyObject *self, PyObject *words)
{
    (void)self;
    long *counts = calloc(LENGTHS, sizeof *counts);
    for (Py_ssize_t n = 0; n < PyList_GET_SIZE(words); n++) {
        Py_ssize_t length = PyUnicode_GET_LENGTH(PyList_GET_ITEM(words, n));
        counts[length]++;
    }
    PyObject *list = PyList_New(LENGTHS);
    for (int n = 0; n < LENGTHS; n++)
        PyList_SET_ITEM(list, n, PyLong_FromLong(counts[n]));
    free(counts);
    return list;
}

static PyMethodDef methods[] = {{"lengths", lengths, METH_O, "How many words have each length."}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "words", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_words(void)
{
    return PyModule_Create(&module);
}
