//! Reserves room for an absurd number of headers in a map that has one.

use http::HeaderMap;
use http::header::{HOST, HeaderValue};

fn main() {
    let good = std::env::args().nth(1).as_deref() == Some("good");
    let mut map = HeaderMap::new();
    map.insert(HOST, HeaderValue::from_static("example.org"));
    let additional = if good { 100 } else { usize::MAX - 1 };
    map.reserve(additional);
    println!("room for {} headers", map.capacity());
}
