-- Tables, strings, closures, metatables, coroutines. Argument: size.
local n = tonumber(arg[1])
local Account = {}
Account.__index = Account
function Account.new(b) return setmetatable({ balance = b }, Account) end
function Account:deposit(v) self.balance = self.balance + v return self end
local accounts = {}
for i = 1, n do accounts[i] = Account.new(i):deposit(i % 17) end
table.sort(accounts, function(a, b) return a.balance % 1000 < b.balance % 1000 or
    (a.balance % 1000 == b.balance % 1000 and a.balance < b.balance) end)
local sum = 0
for i, a in ipairs(accounts) do sum = (sum * 31 + a.balance * i) % 1000000007 end
print(sum)
local words = {}
for i = 1, n do words[#words + 1] = string.format("%x%s", i * 7919 % 4099, ("ab"):rep(i % 4)) end
local text, count = table.concat(words, " "), {}
for w in text:gmatch("%w+") do count[w] = (count[w] or 0) + 1 end
local keys = {}
for k in pairs(count) do keys[#keys + 1] = k end
table.sort(keys)
print(#keys, keys[1], keys[#keys], #text:gsub("ab", "xyz"))
local producer = coroutine.wrap(function() for i = 1, n do coroutine.yield(math.sin(i)) end end)
local total = 0.0
for _ = 1, n do total = total + producer() end
print(string.format("%.9f", total))
