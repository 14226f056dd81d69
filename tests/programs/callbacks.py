# Calls from C back into Python, through code that libffi makes for each callback.
import ctypes
import sys

libc = ctypes.CDLL(None)
COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
total = 0
for turn in range(int(sys.argv[1])):
    numbers = (ctypes.c_int * 20)(*[(i * 7919 + turn) % 101 for i in range(20)])
    libc.qsort(numbers, 20, 4, COMPARE(lambda x, y: x[0] - y[0]))
    total = (total * 3 + numbers[3]) % 1000003
    assert list(numbers) == sorted(numbers)
print(total)
