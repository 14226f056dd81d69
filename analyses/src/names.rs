//! Names of functions, as long as one can read.

/// Longest name that is shown whole.
const LONGEST: usize = 60;

/// A long name without what stands between its angle and round brackets.
pub fn brief(name: &str) -> String {
    if name.len() <= LONGEST {
        return name.to_owned();
    }
    let mut all = String::new();
    // Of `<Vec<u8> as Write>::write` the outer brackets are the name itself.
    let kept = usize::from(name.starts_with('<'));
    let (mut depth, mut rest) = (0, name);
    while let Some(first) = rest.chars().next() {
        let whole = [
            "operator()",
            "operator<<",
            "operator<",
            "operator->",
            "operator>>",
            "operator>",
            "(anonymous namespace)",
            "->",
        ];
        let len = whole.into_iter().find(|whole| rest.starts_with(whole)).map_or(first.len_utf8(), str::len);
        let (text, behind) = rest.split_at(len);
        rest = behind;
        match text {
            "<" | "(" => {
                if depth <= kept {
                    all += text;
                }
                if depth == kept {
                    all += "...";
                }
                depth += 1;
            }
            ">" | ")" => {
                depth = depth.saturating_sub(1);
                if depth <= kept {
                    all += text;
                }
            }
            _ if depth <= kept => all += text,
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::brief;

    #[test]
    fn long_names() {
        let at = "std::map<std::basic_string<char, std::allocator<char> >, int>::at(std::basic_string<char> const&) const at map.h:5";
        assert_eq!(brief(at), "std::map<...>::at(...) const at map.h:5");
        assert_eq!(brief("main"), "main");
        let shift = "std::ostream& std::operator<< <std::char_traits<char> >(std::basic_ostream<char>&, char const*)";
        assert_eq!(brief(shift), "std::ostream& std::operator<< <...>(...)");
        let of_rust = "<alloc::vec::Vec<u8, alloc::alloc::Global> as std::io::Write>::write_all::<lib::Something>";
        assert_eq!(brief(of_rust), "<alloc::vec::Vec<...> as std::io::Write>::write_all::<lib::Something>");
    }
}
