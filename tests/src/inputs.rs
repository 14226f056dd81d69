//! Input files for programs, from a fixed seed: the same bytes on every machine.

use fastrand::Rng;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::path::Path;

const SEED: u64 = 0x0b09_6e37;

const SYLLABLES: [&str; 24] = [
    "ba", "re", "mo", "ti", "lu", "ka", "ne", "so", "vi", "da", "pe", "ro", "gi", "fu", "ha", "le", "ma", "no", "sti",
    "tra", "qui", "plo", "gra", "sch",
];

/// Words that repeat as those of a language do: few are common, many are rare.
struct Words {
    rng: Rng,
    words: Vec<String>,
}

impl Words {
    fn new() -> Self {
        let mut rng = Rng::with_seed(SEED);
        let word = |rng: &mut Rng| (0..rng.usize(1..5)).map(|_| SYLLABLES[rng.usize(..24)]).collect();
        let words = (0..4000).map(|_| word(&mut rng)).collect();
        Self { rng, words }
    }

    fn next(&mut self) -> &str {
        // The square of a uniform number prefers the front.
        let x = self.rng.f64();
        &self.words[(x * x * x * self.words.len() as f64) as usize]
    }
}

/// Text of about `bytes` bytes: lines of words with punctuation and numbers.
///
/// # Errors
/// The file cannot be written.
pub fn text(path: &Path, bytes: u64) -> Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    let mut words = Words::new();
    let mut written = 0;
    while written < bytes {
        let mut line = String::new();
        for _ in 0..words.rng.usize(3..14) {
            line.push_str(words.next());
            line.push_str(["", "", "", ",", ";"][words.rng.usize(..5)]);
            line.push(' ');
        }
        let _ = writeln!(line, "{}.", words.rng.u32(..100_000));
        written += line.len() as u64;
        out.write_all(line.as_bytes())?;
    }
    out.flush()
}

/// `count` lines for sorting: a number, a word, a number, tabs between.
///
/// # Errors
/// The file cannot be written.
pub fn lines(path: &Path, count: u64) -> Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    let mut words = Words::new();
    for _ in 0..count {
        let (key, value) = (words.rng.u32(..), words.rng.u32(..1000));
        writeln!(out, "{key}\t{}\t{value}", words.next())?;
    }
    out.flush()
}

/// A JSON array of `count` objects with strings, numbers, lists and nesting.
///
/// # Errors
/// The file cannot be written.
pub fn json(path: &Path, count: u64) -> Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    let mut words = Words::new();
    write!(out, "[")?;
    for id in 0..count {
        let comma = if id == 0 { "" } else { ",\n" };
        let (a, b, x) = (words.next().to_owned(), words.next().to_owned(), words.rng.f64() * 1000.0);
        let list: Vec<String> = (0..words.rng.usize(1..6)).map(|_| words.rng.u16(..).to_string()).collect();
        let flag = words.rng.bool();
        write!(
            out,
            "{comma}{{\"id\": {id}, \"name\": \"{a} {b}\", \"x\": {x:.6}, \"list\": [{}], \"more\": {{\"{a}\": {flag}}}}}",
            list.join(", ")
        )?;
    }
    writeln!(out, "]")?;
    out.flush()
}

/// SQL that inserts `count` rows in each of two tables, and joins, groups, updates and deletes.
///
/// # Errors
/// The file cannot be written.
pub fn sql(path: &Path, count: u64) -> Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    let mut words = Words::new();
    writeln!(out, "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, kind INTEGER, price REAL);")?;
    writeln!(out, "CREATE TABLE sale(id INTEGER PRIMARY KEY, item INTEGER, amount INTEGER);\nBEGIN;")?;
    for id in 0..count {
        let (kind, price) = (words.rng.u32(..50), words.rng.u32(..100_000));
        let (item, amount) = (words.rng.u64(..count), words.rng.u32(1..20));
        let name = words.next();
        writeln!(out, "INSERT INTO item VALUES({id},'{name}',{kind},{price}.25);")?;
        writeln!(out, "INSERT INTO sale VALUES({id},{item},{amount});")?;
    }
    writeln!(out, "COMMIT;\nCREATE INDEX sale_item ON sale(item);")?;
    writeln!(
        out,
        "SELECT kind, count(*), sum(price*amount) FROM item JOIN sale ON sale.item = item.id GROUP BY kind ORDER BY 3;"
    )?;
    writeln!(out, "UPDATE item SET price = price * 1.1 WHERE name LIKE '%ba%';")?;
    writeln!(out, "DELETE FROM sale WHERE amount < 5;")?;
    writeln!(out, "SELECT count(*), avg(amount) FROM sale;")?;
    writeln!(out, "SELECT name, max(price), length(name) FROM item GROUP BY name ORDER BY 2 DESC LIMIT 20;")?;
    out.flush()
}

/// A C source file of about `count` lines that needs no header: functions with loops, switches, tables and calls.
///
/// # Errors
/// The file cannot be written.
pub fn c_source(path: &Path, count: u64) -> Result<()> {
    const LINES_OF_A_FUNCTION: u64 = 25;
    let mut out = BufWriter::new(File::create(path)?);
    let mut rng = Rng::with_seed(SEED);
    writeln!(out, "struct node {{ struct node *next; int key; unsigned long value[4]; }};")?;
    for f in 0..count.div_ceil(LINES_OF_A_FUNCTION) {
        let callee = if f == 0 { "0".to_owned() } else { format!("f{}(list, a & 15)", rng.u64(..f)) };
        let numbers: Vec<String> = (0..8).map(|_| rng.u16(..).to_string()).collect();
        let (k, m) = (rng.u32(3..200), rng.u32(2..9));
        write!(
            out,
            "static const int table{f}[8] = {{ {} }};\n\
             long f{f}(struct node *list, int a)\n\
             {{\n\
             \x20   long sum = {k};\n\
             \x20   double x = a * 0.5;\n\
             \x20   for (struct node *n = list; n; n = n->next) {{\n\
             \x20       switch ((n->key + a) % {m}) {{\n\
             \x20       case 0:\n\
             \x20           sum += n->value[a & 3] * table{f}[n->key & 7];\n\
             \x20           break;\n\
             \x20       case 1:\n\
             \x20           sum ^= (sum << {}) | (n->value[1] >> 3);\n\
             \x20           x = x * 1.25 + n->key / (x + {m});\n\
             \x20           break;\n\
             \x20       default:\n\
             \x20           for (int i = 0; i < 4; i++)\n\
             \x20               n->value[i] = n->value[i] * {k} + table{f}[i + 2];\n\
             \x20       }}\n\
             \x20   }}\n\
             \x20   if (a > {k})\n\
             \x20       sum -= {callee};\n\
             \x20   return sum + (long)x;\n\
             }}\n\n",
            numbers.join(", "),
            rng.u32(1..31),
        )?;
    }
    out.flush()
}
