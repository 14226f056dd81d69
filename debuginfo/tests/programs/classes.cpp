// Classes, references, templates, name spaces and lambdas; dies in a method.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace shapes {
enum class Kind : uint8_t { Circle, Square = 7 };
enum Plain { FIRST, SECOND };

struct Shape {
#ifndef NO_STATIC
    static int count;
    static const int limit = 10;
#endif
    int id = 3;
    Kind kind = Kind::Square;
    virtual ~Shape() = default;
    virtual double area() const = 0;
};
#ifndef NO_STATIC
int Shape::count = 4;
#endif

struct Named { const char *name = "named"; };

struct Square : public Shape, Named {
    double side;
    explicit Square(double s) : side(s) {}
    double area() const override
    {
        double result = side * side;
        __builtin_trap();
        return result;
    }
};

struct Base { int base = 1; };
struct Left : virtual Base { int left = 2; };
struct Right : virtual Base { int right = 3; };
struct Diamond : Left, Right { int own = 4; };
struct Nothing {};
struct OnlyBase : Base {};

template <typename T, int N> struct Buffer {
    T items[N] = {};
    int used = 0;
    T &first() { return items[0]; }
};
} // namespace shapes

namespace {
int hidden = 9;
}

struct Bits {
    unsigned low : 4;
    signed high : 4;
    bool flag : 1;
};

__attribute__((noinline)) double use(const shapes::Shape &shape, int &counter, int &&temporary, shapes::Plain plain)
{
    int const &alias = counter;
    shapes::Kind kind = shape.kind;
    shapes::Kind odd = static_cast<shapes::Kind>(3);
    bool flag = true;
    char16_t c16 = u'x';
    char32_t c32 = U'y';
    double result = shape.area();
    return result + alias + temporary + int(kind) + int(odd) + flag + c16 + c32 + plain;
}

__attribute__((noinline)) double build(int n)
{
    shapes::Square square(1.5);
    shapes::Buffer<int, 4> buffer;
    shapes::Diamond diamond;
    shapes::Nothing nothing;
    shapes::OnlyBase only;
    Bits bits = { 9, -3, true };
    int counter = n + hidden;
    auto lambda = [&counter, n](int x) { return counter + n + x; };
    int shapes::Shape::*member = &shapes::Shape::id;
    shapes::Shape *pointer = &square;
    buffer.first() = 5;
    return use(square, counter, 12, shapes::SECOND) + lambda(1) + square.*member + pointer->id + buffer.used
        + diamond.own + bits.low + sizeof nothing + only.base;
}

int main(int argc, char **)
{
    return build(argc) > 0;
}
