// So many rounds of what scripts on a server do: JSON, sorting, maps, closures, regular expressions and numbers.
const rounds = Number(process.argv[2]);
let seed = 1;
const random = below => {
    seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
    return (seed >>> 8) % below;
};
let sum = 0;
for (let round = 0; round < rounds; round++) {
    const items = Array.from({ length: 300 }, (_, number) => ({ number, name: 'item ' + random(1000), price: random(10000) / 100 }));
    const read = JSON.parse(JSON.stringify({ round, items }));
    const byName = new Map();
    for (const item of read.items) {
        byName.set(item.name, (byName.get(item.name) ?? 0) + item.price);
    }
    const names = [...byName.keys()].sort((one, other) => byName.get(one) - byName.get(other) || (one < other ? -1 : 1));
    const text = names.join(', ').replace(/item (\d)(\d*)/g, (_, first, rest) => rest + first);
    for (let at = 0; at < text.length; at++) {
        sum = (Math.imul(sum, 31) + text.charCodeAt(at)) | 0;
    }
}
console.log(rounds, sum);
