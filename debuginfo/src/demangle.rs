//! Names of functions and variables as their source has them.

/// A name as its source has it. Only names that are mangled are touched: `f` is also how C++ writes the type `float`.
#[must_use]
pub fn demangle(name: &str) -> String {
    let is_mangled = ["_Z", "__Z", "_R"].iter().any(|prefix| name.starts_with(prefix));
    if !is_mangled {
        return name.to_owned();
    }
    let name = addr2line::demangle_auto(name.into(), None);
    // Other tools have other words for what the compiler makes itself.
    for (own, usual) in [("{vtable(", "vtable for"), ("{vtt(", "VTT for"), ("{typeinfo(", "typeinfo for")] {
        if let Some(of) = name.strip_prefix(own).and_then(|rest| rest.strip_suffix(")}")) {
            return format!("{usual} {of}");
        }
    }
    name.into_owned()
}

#[cfg(test)]
mod tests {
    use super::demangle;

    #[test]
    fn only_mangled_names_are_demangled() {
        // Each is a type in the mangling of C++.
        for name in ["f", "i", "d", "v", "b", "c", "x", "Pv", "PKc", "St", "main", "Z", "R", "_ZZZ", "_R"] {
            assert_eq!(demangle(name), name);
        }
        assert_eq!(demangle("_Z3fooi"), "foo(int)");
        assert_eq!(demangle("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(demangle("_ZTV3foo"), "vtable for foo");
        assert_eq!(demangle("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
    }
}
