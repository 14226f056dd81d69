"""Big integers: a factorial, its digits, a modular power, an integer square root."""
import math
import sys

sys.set_int_max_str_digits(0)
n = int(sys.argv[1])
f = math.factorial(n)
digits = str(f)
print(len(digits), digits[:30], sum(map(int, digits)))
p = (1 << 521) - 1
print(pow(3, f % p, p) % 10**20)
print(math.isqrt(f) % 10**20)
a, b = 0, 1
for _ in range(n * 2):
    a, b = b, a + b
print(a % 10**30, a.bit_length())
