<?php
// Loops, calls and regular expressions that PHP compiles to machine code while they run.
function fib($n) { return $n < 2 ? $n : fib($n - 1) + fib($n - 2); }
$n = (int)$argv[1];
$s = 0;
for ($i = 0; $i < $n; $i++) { $s = ($s * 31 + $i) % 1000003; }
echo fib(14), " ", $s, " ", preg_replace('/b(.)/', '$1x', str_repeat("abc", 20)), "\n";
