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

/// Template arguments that C++'s standard library has unless a program says otherwise.
const DEFAULTS: [&str; 6] =
    ["std::allocator<", "std::char_traits<", "std::less<", "std::hash<", "std::equal_to<", "std::default_delete<"];

/// A demangled name as a person writes it: without default template arguments, and texts as `std::string`.
#[must_use]
pub fn brief(name: &str) -> String {
    if !name.contains('<') {
        return name.to_owned();
    }
    let mut rest = name;
    // What does not close what it opens is no name of C++.
    let brief = arguments(&mut rest).filter(|_| rest.is_empty()).unwrap_or_else(|| name.to_owned());
    ["std::__cxx11::basic_string<char>", "std::basic_string<char>"]
        .iter()
        .fold(brief, |name, text| name.replace(text, "std::string"))
}

/// The name of a function without the types of its parameters, if it has them: for where their values follow.
#[must_use]
pub fn without_parameters(name: &str) -> &str {
    let mut depth = 0_i32;
    let begins = |(at, sign): (usize, char)| {
        depth += match sign {
            '<' => 1,
            '>' => -1,
            _ => 0,
        };
        (sign == '(' && depth == 0 && at > 0 && !name[at..].starts_with("(anonymous")).then_some(at)
    };
    // The names of operators have signs of their own.
    let end = if name.contains("operator") { None } else { name.char_indices().find_map(begins) };
    &name[..end.unwrap_or(name.len())]
}

/// What comes up to the end, or up to the bracket that closes arguments, in short; `rest` is what is left.
fn arguments(rest: &mut &str) -> Option<String> {
    let (mut all, mut one) = (Vec::new(), String::new());
    while let Some(at) = rest.find(['<', '>', ',']) {
        // `operator<`, `operator->` and the like are names.
        let (before, sign) = (&rest[..at], &rest[at..=at]);
        one.push_str(before);
        let is_operator = one.trim_end_matches(['<', '>', '-', '=']).ends_with("operator");
        match sign {
            _ if is_operator => one.push_str(sign),
            "<" => {
                *rest = &rest[at + 1..];
                let inner = arguments(rest)?;
                *rest = rest.strip_prefix('>')?;
                one.push_str(&format!("<{}>", inner.trim_end()));
                continue;
            }
            ">" => {
                *rest = &rest[at..];
                all.push(one);
                return Some(joined(all));
            }
            _ => all.push(std::mem::take(&mut one)),
        }
        *rest = &rest[at + 1..];
    }
    one.push_str(rest);
    *rest = "";
    all.push(one);
    Some(all.join(","))
}

/// Arguments without those that are not worth a word; the first one always is.
fn joined(all: Vec<String>) -> String {
    let is_default = |one: &str| DEFAULTS.iter().any(|default| one.trim_start().starts_with(default));
    let kept: Vec<String> =
        all.into_iter().enumerate().filter(|(at, one)| *at == 0 || !is_default(one)).map(|(_, one)| one).collect();
    kept.join(",")
}

#[cfg(test)]
mod tests {
    use super::{brief, demangle, without_parameters};

    #[test]
    fn names_without_parameters() {
        for (name, short) in [
            ("sum(std::vector<int> const&)", "sum"),
            ("a<int (*)(char)>::f(int) const", "a<int (*)(char)>::f"),
            ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
            ("T::operator()(int) const", "T::operator()(int) const"),
            ("main", "main"),
        ] {
            assert_eq!(without_parameters(name), short);
        }
    }

    #[test]
    fn names_in_short() {
        for (name, short) in [
            ("std::vector<Order, std::allocator<Order> >::size() const", "std::vector<Order>::size() const"),
            (
                "f(std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > const&, int)",
                "f(std::string const&, int)",
            ),
            (
                "std::map<int, std::vector<char, std::allocator<char>>, std::less<int>, std::allocator<std::pair<int const, char>>>",
                "std::map<int, std::vector<char>>",
            ),
            ("std::allocator<char>::allocate", "std::allocator<char>::allocate"),
            ("a < b", "a < b"),
            ("operator<<(int, int)", "operator<<(int, int)"),
            ("T::operator->() const", "T::operator->() const"),
            ("core::option::Option<alloc::vec::Vec<u8>>", "core::option::Option<alloc::vec::Vec<u8>>"),
            ("main", "main"),
        ] {
            assert_eq!(brief(name), short);
        }
    }

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
