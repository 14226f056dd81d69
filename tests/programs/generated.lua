-- Loops and calls that LuaJIT compiles while they run, calls through its FFI included.
local n = tonumber(arg[1])
local function fib(k) if k < 2 then return k end return fib(k - 1) + fib(k - 2) end
local t, s, z = {}, 0, 0
for i = 1, n do
  t[i % 100 + 1] = (t[i % 100 + 1] or 0) + i
  s = (s + i % 7 * 2) % 1000003
end
local ok, ffi = pcall(require, "ffi")
ffi.cdef "int abs(int);"
for i = 1, n / 4 do z = (z + ffi.C.abs(-i)) % 1000003 end
print(fib(15), t[5], s, z, (("x"):rep(5):gsub("x", "yz")))
