"""Objects: classes, properties, dunder methods, generators, exceptions, dicts of tuples."""
import sys
from dataclasses import dataclass, field
from functools import lru_cache


class Vector:
    __slots__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)

    def __mul__(self, k):
        return Vector(self.x * k, self.y * k)

    @property
    def norm(self):
        return self.x * self.x + self.y * self.y


@dataclass
class Node:
    key: int
    children: list = field(default_factory=list)

    def walk(self):
        yield self.key
        for child in self.children:
            yield from child.walk()


class Shape:
    def area(self):
        raise NotImplementedError


class Square(Shape):
    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side**2


class Circle(Square):
    def area(self):
        return super().area() * 355 / 113


@lru_cache(maxsize=None)
def paths(a, b):
    return 1 if a == 0 or b == 0 else paths(a - 1, b) + paths(a, b - 1)


n = int(sys.argv[1])
total = Vector(0, 0)
for i in range(n):
    total = total + Vector(i, -i) * (i % 5)
print(total.norm)
nodes = [Node(0)]
for i in range(1, n // 4):
    node = Node(i)
    nodes[(i * 7919) % len(nodes)].children.append(node)
    nodes.append(node)
sys.setrecursionlimit(10000)
print(sum(k * p for p, k in enumerate(nodes[0].walk())))
grid = {(x, y): x ^ y for x in range(60) for y in range(n // 200)}
print(sum(v for (x, y), v in grid.items() if (y, x) in grid))
caught = 0
for i in range(n // 10):
    try:
        (Shape() if i % 3 == 0 else Square(i)).area()
    except NotImplementedError:
        caught += 1
print(caught, round(sum(s.area() for s in [Circle(1), Square(2)] * 100), 6), paths(60, 60))
