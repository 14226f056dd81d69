//! Calls the reproducer in `main.c`.

use std::ffi::c_int;

use libz_sys as _;

unsafe extern "C" {
    fn case_main(good: c_int) -> c_int;
}

fn main() {
    let good = std::env::args().nth(1).as_deref() == Some("good");
    // SAFETY: the function has this signature and takes no pointers.
    std::process::exit(unsafe { case_main(c_int::from(good)) });
}
