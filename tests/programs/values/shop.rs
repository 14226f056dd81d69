// A shop's list, in containers of Rust's standard library. Dies in `sum`.
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

#[derive(Debug)]
#[allow(dead_code)]
enum Paid {
    Cash,
    Card { number: u32 },
    Part(u32, Box<Paid>),
}

#[allow(clippy::too_many_arguments)]
#[inline(never)]
fn sum(
    prices: &[u32],
    names: &Vec<String>,
    stock: HashMap<String, u32>,
    seen: HashSet<u8>,
    shelves: BTreeMap<u16, String>,
    many: BTreeMap<u32, u64>,
    odd: BTreeSet<u32>,
    empty: BTreeMap<u8, u8>,
    paid: Paid,
    best: Option<&str>,
    nothing: Option<u32>,
    failed: Result<u8, String>,
) -> u32 {
    if names.len() == prices.len() {
        std::process::abort();
    }
    drop((stock, seen, shelves, many, odd, empty, paid, best, nothing, failed));
    0
}

fn main() {
    let prices = [289, 599, 119];
    let names: Vec<String> = ["jam", "honey", "sugar"].map(str::to_owned).into();
    let stock = HashMap::from([("jam".to_owned(), 30)]);
    let shelves = BTreeMap::from([(7, "jam".to_owned()), (3, "honey".to_owned())]);
    let many = (0..40).map(|n| (n, u64::from(n) * 10)).collect();
    let odd = (0..30).filter(|n| n % 2 == 1).collect();
    let paid = Paid::Part(5, Box::new(Paid::Cash));
    let failed = Err("closed".to_owned());
    sum(&prices, &names, stock, HashSet::from([4]), shelves, many, odd, BTreeMap::new(), paid, Some("jam"), None, failed);
}
