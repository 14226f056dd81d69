//! Sanitizers that put their own memory at fixed addresses, and so do not start where libraries lie elsewhere than the kernel would put them.

use object::{File, Object, ObjectSymbol};
use std::path::Path;

/// Functions that each program has which was built with one.
const MARKS: [(&str, &str); 3] =
    [("__tsan_init", "ThreadSanitizer"), ("__msan_init", "MemorySanitizer"), ("__hwasan_init", "HWAddressSanitizer")];

/// The name of the sanitizer that a program was built with, if it is one of these.
#[must_use]
pub fn sanitizer(program: &Path) -> Option<&'static str> {
    let bytes = std::fs::read(program).ok()?;
    let file = File::parse(&*bytes).ok()?;
    let found = |name: &str| MARKS.iter().find(|(mark, _)| *mark == name).map(|(_, sanitizer)| *sanitizer);
    file.dynamic_symbols().chain(file.symbols()).find_map(|symbol| found(symbol.name().ok()?))
}
