# A project of cmake's: what it finds out about compilers, a build of C and C++, a test.
set -e
cat >CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.10)
project(x C CXX)
add_library(a STATIC a.c)
add_executable(m m.cpp)
target_link_libraries(m a)
enable_testing()
add_test(NAME t COMMAND m)
END
echo 'int a(int x) { return x + 1; }' >a.c
cat >m.cpp <<'END'
#include <iostream>
#include <map>
extern "C" int a(int);
int main() {
    std::map<int, int> m;
    m[1] = a(41);
    std::cout << m[1] << std::endl;
}
END
cmake -S . -B b
make -C b -j4
cd b
ctest
