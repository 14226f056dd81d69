function mix(a, b) { let x = a | 0; for (let i = 0; i < 50; i++) x = (x * 31 + b + i) | 0; return x; }
let s = 0;
for (let i = 0; i < 30000; i++) s = mix(s, i);
const o = [];
for (let i = 0; i < 2000; i++) o.push({ k: i, v: 'x' + i });
console.log(s, o.filter(e => e.k % 7 == 0).map(e => e.v.length).reduce((a, b) => a + b, 0));
