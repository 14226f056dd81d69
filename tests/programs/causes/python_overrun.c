// An extension of Python's writes behind a block of Python's own allocator.
// compiler: sh -c 'gcc -g -O0 -shared -fPIC $(/usr/bin/python3-config --includes) -o "$0" "$1"'
// command: /usr/bin/python3 -S -E -c 'import importlib.machinery as m; m.ExtensionFileLoader("overrun", "{program}").load_module().fill(5)'
// asks: memcheck
// says: Not followed: Python's own allocator
// says: invalid write of 4 bytes
// says: the first wrong byte is 0 bytes behind the end of a block of 20 bytes
// says: allocated by PyMem_Malloc
#define PY_SSIZE_T_CLEAN
#include <Python.h>
static PyObject *fill(PyObject *self, PyObject *args) {
    int count;
    if (!PyArg_ParseTuple(args, "i", &count))
        return NULL;
    int *all = PyMem_Malloc(count * sizeof *all);
    for (int i = 0; i <= count; i++)
        all[i] = i;
    PyMem_Free(all);
    Py_RETURN_NONE;
}
static PyMethodDef methods[] = {{"fill", fill, METH_VARARGS, ""}, {0}};
static struct PyModuleDef overrun = {PyModuleDef_HEAD_INIT, "overrun", 0, -1, methods};
PyMODINIT_FUNC PyInit_overrun(void) {
    return PyModule_Create(&overrun);
}
