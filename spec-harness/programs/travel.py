"""Loops, dicts and strings, in one function after the other: what Python programs mostly do."""
import sys


def words(n):
    """Numbers as words."""
    digits = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    for i in range(n):
        yield "-".join(digits[int(digit)] for digit in str(i * 7919 % 100003))


def count(n):
    """How often each part of a word occurs, by dict."""
    seen = {}
    for word in words(n):
        for part in word.split("-"):
            seen[part] = seen.get(part, 0) + 1
    return seen


def sieve(n):
    """Primes, by a list."""
    prime = [True] * (n + 1)
    for i in range(2, int(n**0.5) + 1):
        if prime[i]:
            for j in range(i * i, n + 1, i):
                prime[j] = False
    return sum(prime) - 2


def turn(n):
    """A text that is taken apart and put together."""
    text = "the quick brown fox jumps over the lazy dog"
    for i in range(n):
        text = " ".join(reversed(text.split(" "))).replace("fox", "cat" if i % 2 else "fox")
    return text


rounds = int(sys.argv[1])
for i in range(rounds):
    print(i, sorted(count(1000 + i % 100).items())[:3], sieve(2000 + i % 100), turn(500))
